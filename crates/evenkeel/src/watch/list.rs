//! The full state as a list, in pages or in one piece.
//!
//! Which version is asked for, and whether in pages, decides whether the server answers out of
//! its cache or has to read its database. The rules are client-go's.

use super::connection::Connection;
use super::items::{Items, ListMeta};
use super::request::Ask;
use super::{Error, Reflector, Sink};

/// Objects per page where no other number was asked for.
const PAGE: u32 = 500;

/// How a list went.
struct Listed {
    version: String,
    paged: bool,
}

impl Reflector {
    /// Lists, and commits.
    pub(super) async fn list(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let mut version = match &*self.version {
            _ if self.version_unavailable => "",
            // Any state is better than none, and the server has one at hand.
            "" => "0",
            seen => seen,
        }
        .to_owned();
        let limit = match self.settings.page_size {
            Some(size) => size,
            None if self.pages_anyway || version.is_empty() || version == "0" => PAGE,
            // The server's cache answers for "not older than" only if asked for all at once.
            None => 0,
        };
        let mut listed = self.pages(sink, &version, limit).await;
        if let Err(error) = &listed
            && (error.is_expired() || error.is_too_large())
        {
            self.version_unavailable = true;
            version.clear();
            listed = self.pages(sink, &version, limit).await;
        }
        let listed = listed?;
        if version == "0" && listed.paged {
            self.pages_anyway = true;
        }
        sink.commit(&listed.version);
        self.listed(listed.version);
        Ok(())
    }

    /// Lists page by page, within a state that is left open if all goes well.
    async fn pages(
        &mut self,
        sink: &mut impl Sink,
        version: &str,
        limit: u32,
    ) -> Result<Listed, Error> {
        let mut limit = limit;
        let mut listed = None;
        let mut token: Option<String> = None;
        let mut second_try = false;
        loop {
            let ask = Ask::List { version, limit, token: token.as_deref() };
            let error = match self.page(sink, &ask).await {
                Ok(page) => {
                    let paged = !page.r#continue.is_empty();
                    // All pages are of the version the first one has.
                    let listed = listed
                        .get_or_insert(Listed { version: page.resource_version, paged: false });
                    listed.paged |= paged;
                    if !paged {
                        return Ok(Listed { version: listed.version.clone(), paged: listed.paged });
                    }
                    token = Some(page.r#continue);
                    continue;
                }
                Err(error) => error,
            };
            // The pages took longer than the server keeps their version.
            let again = error.is_expired() && token.is_some() && !second_try;
            if !again {
                return Err(error);
            }
            second_try = true;
            listed = None;
            token = None;
            limit = 0;
        }
    }

    /// Gets one page. The first begins the state; if any fails, the state is abandoned.
    async fn page(&mut self, sink: &mut impl Sink, ask: &Ask<'_>) -> Result<ListMeta, Error> {
        let first = matches!(ask, Ask::List { token: None, .. });
        let request = self.scope.request(ask)?;
        let opened = Connection::open(&self.transport, request, self.settings.answer_silence).await;
        let page = match opened {
            Ok(connection) => {
                if first {
                    sink.begin(self.reset);
                }
                read(connection, sink).await
            }
            // Nothing has begun that could be abandoned.
            Err(error) if first => return Err(error),
            Err(error) => Err(error),
        };
        page.inspect_err(|_| sink.abandon())
    }
}

async fn read(mut connection: Connection, sink: &mut impl Sink) -> Result<ListMeta, Error> {
    let mut items = Items::new();
    while let Some(frame) = connection.frame().await? {
        items.feed(frame);
        while items.advance()? {
            sink.listed(items.item());
            // A frame may hold a great many objects.
            tokio::task::consume_budget().await;
        }
    }
    items.finish()
}
