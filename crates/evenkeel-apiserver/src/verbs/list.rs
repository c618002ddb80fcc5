//! `list`: a collection at one revision, whole or paged.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::context::RequestContext;
use crate::conversion;
use crate::digest;
use crate::pipeline::encode::{List, Reply};
use crate::registry::resource::Resource;
use crate::request::query::{ListOptions, VersionMatch};
use crate::selector::Filter;
use crate::status::Status;
use crate::storage::{Key, Page, Range, ReadError};

/// How long a list waits for a future revision, as upstream does.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

pub(crate) async fn handle(cx: &RequestContext) -> Result<Reply, Status> {
    let options = ListOptions::parse(&cx.query)?;
    let filter = Filter::parse(&cx.resource, &options.label_selector, &options.field_selector)?;
    let list = select(cx, &options, &filter).await?;
    Ok(Reply::List(list))
}

/// Lists one page of a collection.
pub(crate) async fn select(
    cx: &RequestContext,
    options: &ListOptions,
    filter: &Filter,
) -> Result<List, Status> {
    let table = &cx.resource.table;
    let namespace = (!cx.namespace.is_empty()).then_some(cx.namespace.as_str());
    // Upstream serves resourceVersion 0 from a cache that ignores the limit, and returns everything
    // that is left.
    let any_version = options.resource_version == "0";
    let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0 && !any_version);

    let token = match options.continue_token.as_str() {
        "" => None,
        token => Some(Token::parse(token, &cx.resource, namespace)?),
    };
    let (after, at) = match &token {
        Some(token) => {
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            (Some(&token.after), token.revision)
        }
        None => (None, starting_revision(cx, options).await?),
    };

    // A single name is looked up directly.
    if let (Some(name), Some(namespace), None, None) =
        (filter.exact_name(), namespace.or((!cx.resource.namespaced).then_some("")), at, &token)
    {
        let revision = cx.core.store.revision();
        let record = match table.get(&Key::new(namespace, name)) {
            Some(record) => Some(conversion::record(&cx.core, &cx.resource, record).await?),
            None => None,
        };
        let record = record.filter(|record| filter.matches(record));
        let revision = record.as_ref().map_or(revision, |record| revision.max(record.revision));
        let records = record.into_iter().collect();
        return Ok(List::new(cx.resource.clone(), records, Some(revision), None, None));
    }

    let range = Range { namespace, after, limit };
    let page = read_page(cx, range, at, filter).await?;
    let page = page.map_err(|error| list_error(error, token.as_ref(), namespace))?;

    let mut remaining = None;
    let mut next = None;
    if let Some(last) = &page.next {
        next = Some(Token::write(Some(page.revision), last, namespace));
        if filter.is_empty() {
            let rest = Range { namespace, after: Some(last), limit: None };
            remaining = table.count(rest, Some(page.revision)).ok();
        }
    }
    Ok(List::new(cx.resource.clone(), page.items, Some(page.revision), next, remaining))
}

/// Reads the selected objects of a page, in the version of the request.
pub(super) async fn read_page(
    cx: &RequestContext,
    range: Range<'_>,
    at: Option<u64>,
    filter: &Filter,
) -> Result<Result<Page, ReadError>, Status> {
    let table = &cx.resource.table;
    let selects_stored = filter.is_empty() || !conversion::by_webhook(&cx.resource);
    // Labels and fields may differ between versions, so objects are converted before they are
    // selected.
    let limit = if selects_stored { range.limit } else { None };
    let listed = Range { limit, ..range };
    let page = if filter.is_empty() || !selects_stored {
        table.list(listed, at)
    } else {
        table.list_where(listed, at, |record| filter.matches(record))
    };
    let Ok(mut page) = page else { return Ok(page) };
    page.items = conversion::records(&cx.core, &cx.resource, page.items).await?;
    if !selects_stored {
        page.items.retain(|record| filter.matches(record));
        if let Some(limit) = range.limit.filter(|limit| page.items.len() > *limit) {
            page.items.truncate(limit);
            page.next = page.items.last().map(|last| last.key.clone());
        }
    }
    Ok(Ok(page))
}

/// Returns the revision to list at: an exact one, or `None` for the latest.
async fn starting_revision(
    cx: &RequestContext,
    options: &ListOptions,
) -> Result<Option<u64>, Status> {
    if options.resource_version.is_empty() {
        return Ok(None);
    }
    let requested = parse_version(&options.resource_version).map_err(|status| {
        Status::bad_request(format!("invalid resource version: {}", status.message()))
    })?;
    wait_for(cx, requested).await?;
    let exact = match options.version_match {
        Some(VersionMatch::Exact) => true,
        Some(VersionMatch::NotOlderThan) => false,
        // The meaning of a page at a revision before `resourceVersionMatch` existed.
        None => options.limit > 0 && requested > 0,
    };
    Ok(exact.then_some(requested))
}

/// Waits for a future revision, which another server may have returned.
pub(crate) async fn wait_for(cx: &RequestContext, requested: u64) -> Result<(), Status> {
    let store = &cx.core.store;
    if requested <= store.revision() {
        return Ok(());
    }
    let deadline = tokio::time::Instant::now() + FUTURE_WAIT;
    while tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if requested <= store.revision() {
            return Ok(());
        }
    }
    Err(Status::too_large_resource_version(requested, store.revision()))
}

/// Parses a resource version; the error is that of a watch.
pub(crate) fn parse_version(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|_| {
        Status::without_reason(
            500,
            format!(
                "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: \
                 invalid syntax"
            ),
        )
    })
}

fn list_error(error: ReadError, token: Option<&Token>, namespace: Option<&str>) -> Status {
    match (error, token) {
        (ReadError::FutureRevision { requested, current }, _) => {
            Status::too_large_resource_version(requested, current)
        }
        (ReadError::Compacted(_), Some(token)) => {
            Status::continue_expired(Token::write(None, &token.after, namespace))
        }
        (ReadError::Compacted(_), None) => {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
    }
}

/// The continue token of a paged list, in the format of upstream's `storage.EncodeContinue`.
struct Token {
    /// `None` once the revision of the first page is compacted: continue at the latest one.
    revision: Option<u64>,
    after: Key,
}

impl Token {
    fn parse(
        text: &str,
        resource: &Arc<Resource>,
        namespace: Option<&str>,
    ) -> Result<Self, Status> {
        let bad = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = digest::from_base64_url(text)
            .map_err(|at| bad(&format!("illegal base64 data at input byte {at}")))?;
        let (token, _) = crate::json::decode(&bytes).map_err(|why| bad(&why))?;
        if token["v"] != "meta.k8s.io/v1" {
            let given = token["v"].as_str().unwrap_or("");
            return Err(bad(&format!("server does not recognize this encoded version {given}")));
        }
        let revision = token["rv"].as_i64().unwrap_or(0);
        if revision == 0 {
            return Err(bad("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        }
        let start = token["start"].as_str().unwrap_or("");
        if start.is_empty() {
            return Err(bad("encoded start key empty (version meta.k8s.io/v1)"));
        }
        let path = start.strip_prefix('/').unwrap_or(start);
        if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad(start));
        }
        let (in_namespace, name) = match namespace {
            Some(namespace) => (namespace, path),
            None if resource.namespaced => path
                .split_once('/')
                .ok_or_else(|| bad("continue key is not valid: start key is malformed"))?,
            None => ("", path),
        };
        let after = match name.strip_suffix('\0') {
            Some(last) => Key::new(in_namespace, last),
            None => Key::new(in_namespace, &just_before(name)),
        };
        Ok(Self { revision: u64::try_from(revision).ok(), after })
    }

    fn write(revision: Option<u64>, after: &Key, namespace: Option<&str>) -> String {
        let start = match (namespace, after.namespace()) {
            (Some(_), _) | (None, "") => format!("{}\0", after.name()),
            (None, in_namespace) => format!("{in_namespace}/{}\0", after.name()),
        };
        let revision = revision.map_or(Value::from(-1), Value::from);
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start});
        digest::base64_url(token.to_string().as_bytes())
    }
}

/// Returns a text just before `name`, in the order of object names. Our tokens end with a zero
/// byte, the first name after the last item; other tokens begin with the name they contain.
fn just_before(name: &str) -> String {
    let mut text = name.to_owned();
    if let Some(last) = text.pop() {
        // Surrogates are the only gap in the range of characters.
        text.push(char::from_u32(u32::from(last).saturating_sub(1)).unwrap_or('\u{D7FF}'));
        text.push(char::MAX);
    }
    text
}
