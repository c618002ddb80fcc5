//! Lists, with or without pages.
//!
//! The requested resourceVersion and page size determine whether the server serves the list from
//! its watch cache or from etcd. The rules are those of client-go's reflector and pager.

use super::connection::Connection;
use super::items::{Items, ListMeta};
use super::request::RequestParameters;
use super::{Error, Reflector, Sink};

/// The default page size.
const PAGE_SIZE: u32 = 500;

/// The result of a list.
struct Listed {
    version: String,
    paged: bool,
}

impl Reflector {
    /// Lists and commits.
    pub(super) async fn list(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let mut version = match &*self.version {
            _ if self.version_unavailable => "",
            // Any state of the watch cache is sufficient.
            "" => "0",
            seen => seen,
        }
        .to_owned();
        let limit = match self.options.page_size {
            Some(size) => size,
            None if self.pages_anyway || version.is_empty() || version == "0" => PAGE_SIZE,
            // The watch cache serves "not older than" only without a limit.
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
        self.set_listed_version(listed.version);
        Ok(())
    }

    /// Lists all pages; on success the full state is left open.
    async fn pages(
        &mut self,
        sink: &mut impl Sink,
        version: &str,
        limit: u32,
    ) -> Result<Listed, Error> {
        let mut limit = limit;
        let mut listed = None;
        let mut token: Option<String> = None;
        let mut retried = false;
        loop {
            let parameters = RequestParameters::List { version, limit, token: token.as_deref() };
            let error = match self.page(sink, &parameters).await {
                Ok(page) => {
                    let paged = !page.r#continue.is_empty();
                    // All pages have the resourceVersion of the first.
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
            // The continue token has expired.
            let again = error.is_expired() && token.is_some() && !retried;
            if !again {
                return Err(error);
            }
            retried = true;
            listed = None;
            token = None;
            limit = 0;
        }
    }

    /// Reads one page. The first page starts the full state; an error discards it.
    async fn page(
        &mut self,
        sink: &mut impl Sink,
        parameters: &RequestParameters<'_>,
    ) -> Result<ListMeta, Error> {
        let first = matches!(parameters, RequestParameters::List { token: None, .. });
        let request = self.scope.request(parameters)?;
        let opened =
            Connection::open(&self.transport, request, self.options.list_read_timeout).await;
        let page = match opened {
            Ok(connection) => {
                if first {
                    sink.begin(self.reset);
                }
                read(connection, sink).await
            }
            // The full state has not started.
            Err(error) if first => return Err(error),
            Err(error) => Err(error),
        };
        page.inspect_err(|_| sink.abandon())
    }
}

async fn read(mut connection: Connection, sink: &mut impl Sink) -> Result<ListMeta, Error> {
    let mut items = Items::new();
    while let Some(frame) = connection.frame().await? {
        items.push(frame);
        while items.advance()? {
            sink.listed(items.item());
            // A frame may contain many objects.
            tokio::task::consume_budget().await;
        }
    }
    items.finish()
}
