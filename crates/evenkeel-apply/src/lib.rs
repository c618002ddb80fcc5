//! Server-side apply as a pure library.
