//! An image with one layer in the OCI image layout, which `docker load`, podman, skopeo and
//! containerd read.

use serde_json::{Value, json};

use super::tar::Archive;

/// The content of an image.
pub(super) struct Contents<'a> {
    pub(super) executable: &'a [u8],
    pub(super) architecture: &'a str,
    /// Name and tag.
    pub(super) tag: &'a str,
}

/// Returns the archive of an image that runs the executable as an unprivileged user.
///
/// # Errors
/// If a document cannot be encoded.
pub(super) fn archive(contents: &Contents<'_>) -> anyhow::Result<Vec<u8>> {
    let mut layer = Archive::default();
    layer.add("operator", 0o755, contents.executable);
    let layer = layer.finish();
    let config = serde_json::to_vec(&json!({
        "architecture": contents.architecture,
        "os": "linux",
        "config": {"User": "65532:65532", "Entrypoint": ["/operator"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        "history": [{"created_by": "evenkeel image"}],
    }))?;
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
    }))?;
    let mut described = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    described["annotations"] = json!({
        "org.opencontainers.image.ref.name": contents.tag.rsplit(':').next(),
        "io.containerd.image.name": contents.tag,
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    // `docker load` reads this file instead of the index.
    let docker = json!([{
        "Config": blob(&config), "RepoTags": [contents.tag], "Layers": [blob(&layer)],
    }]);
    let mut archive = Archive::default();
    archive.add("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#);
    archive.add("index.json", 0o644, &serde_json::to_vec(&index)?);
    archive.add("manifest.json", 0o644, &serde_json::to_vec(&docker)?);
    for content in [&config, &manifest, &layer] {
        archive.add(&blob(content), 0o644, content);
    }
    Ok(archive.finish())
}

fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": digest(content), "size": content.len()})
}

fn blob(content: &[u8]) -> String {
    format!("blobs/sha256/{}", hex(content))
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(content))
}

fn hex(content: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
