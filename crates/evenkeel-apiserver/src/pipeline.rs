//! The writes: one function for each kind of write, which lists its stages in order.
//!
//! ```text
//! decode → manage → mutate → prepare → validate → persist → encode
//! ```
//!
//! Each stage consumes the output of the one before it, so a stage cannot be left out. Of an update
//! or patch, all stages that depend on the current object run inside the compare-and-swap loop,
//! once for each version of the object that they find. No stage compares names of kinds: what is
//! particular to a kind is in its [`Hooks`](crate::context::Hooks).

pub(crate) mod decode;

pub(crate) mod patch;

pub(crate) mod checks;

mod current;

pub(crate) mod manage;

pub(crate) mod mutate;

pub(crate) mod prepare;

pub(crate) mod validate;

pub(crate) mod delete;

pub(crate) mod persist;

pub(crate) mod encode;

use http::StatusCode;
use serde_json::Value;

use self::checks::{check_named, check_namespace, check_uid, check_version, require_name};
use self::current::Current;
use self::decode::Decoded;
use self::delete::Outcome;
use self::encode::Reply;
use self::patch::{Config, Kind, Patch};
use self::persist::{ATTEMPTS, Persisted};
use self::validate::Admitted;
use crate::context::{Deletion, RequestContext};
use crate::object::Metadata as _;
use crate::registry::resource::Part;
use crate::request::delete_options::DeleteOptions;
use crate::request::query::WriteOptions;
use crate::status::Status;

/// Generated names to try before the create fails.
const NAME_ATTEMPTS: usize = 8;

/// `create`: a new object with a given or generated name.
pub(crate) async fn create(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions", false)?;
    let object = decode::object(cx, body, options.field_validation)?;
    let persisted = create_decoded(cx, object, &options).await?;
    Ok(Reply::persisted(cx, StatusCode::CREATED, persisted))
}

/// The stages of a create after decoding; an update of a missing object may create it, too.
async fn create_decoded(
    cx: &RequestContext,
    mut object: Decoded,
    options: &WriteOptions,
) -> Result<Persisted, Status> {
    check_namespace(cx, object.value_mut())?;
    checks::refuse_if_crd_terminating(cx, object.value())?;
    let generated = object.value().meta_str("name").is_empty()
        && !object.value().meta_str("generateName").is_empty();
    checks::wipe_system_fields(object.value_mut());
    let mut attempts = if generated { NAME_ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        let again = (attempts > 0).then(|| object.clone());
        let managed = manage::on_create(cx, object, options).await;
        let mutated = mutate::on_create(cx, managed).await?;
        checks::check_version_of_create(cx, mutated.value())?;
        let prepared = prepare::on_create(cx, mutated)?;
        checks::authorize_create(cx)?;
        let admitted = validate::on_create(cx, prepared).await?;
        match persist::create(cx, admitted, options.dry_run).await {
            Err(status) if status.reason() == "AlreadyExists" && generated => match again {
                // With another generated name.
                Some(again) => object = again,
                None => return Err(checks::names_exhausted(cx, &status)),
            },
            other => return other,
        }
    }
}

/// `update`: replaces an object, its status, or another subresource.
pub(crate) async fn update(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    require_name(cx)?;
    let options = WriteOptions::parse(&cx.query, "UpdateOptions", false)?;
    let mut sent = decode::object(cx, body, options.field_validation)?;
    check_namespace(cx, sent.value_mut())?;
    check_named(cx, sent.value())?;
    let part = Part::of(cx.subresource.as_deref());
    if checks::creates_on_update(cx, part) && !persist::exists(cx, cx.name()) {
        check_uid(cx, sent.value(), "", options.dry_run)?;
        let persisted = create_decoded(cx, sent, &options).await?;
        return Ok(Reply::persisted(cx, StatusCode::CREATED, persisted));
    }
    for _ in 0..ATTEMPTS {
        let current = persist::current(cx, cx.name()).await?;
        let old = current.object();
        let object = sent.clone();
        check_uid(cx, object.value(), old.meta_str("uid"), options.dry_run)?;
        let managed = manage::on_update(cx, object, old, &options).await;
        let mutated = mutate::on_update(cx, managed, old).await?;
        check_version(cx, mutated.value(), &current)?;
        let prepared = prepare::on_update(cx, mutated, current.read_view(), part)?;
        let admitted = validate::on_update(cx, prepared, current.read_view()).await?;
        if let Some(persisted) = persist::update(cx, &current, admitted, options.dry_run).await? {
            return Ok(Reply::persisted(cx, StatusCode::OK, persisted));
        }
    }
    Err(persist::conflict(cx, cx.name()))
}

/// `patch`: changes an object by a JSON patch, a merge patch or a strategic merge patch. The patch
/// is applied to each version of the object that the loop finds.
pub(crate) async fn patch(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let kind = patch::kind(cx)?;
    require_name(cx)?;
    let options = patch::options(cx, kind, body)?;
    if kind == Kind::Apply {
        return apply(cx, body, &options).await;
    }
    let patch = Patch::parse(kind, body, options.field_validation);
    let part = Part::of(cx.subresource.as_deref());
    for _ in 0..ATTEMPTS {
        // A missing object is reported before an invalid patch.
        let current = persist::current(cx, cx.name()).await?;
        let old = current.object();
        let mut object = patch.as_ref().map_err(Status::clone)?.object(cx, old)?;
        check_namespace(cx, object.value_mut())?;
        check_named(cx, object.value())?;
        patch::check_type(cx, object.value())?;
        let managed = manage::on_update(cx, object, old, &options).await;
        let mutated = mutate::on_update(cx, managed, old).await?;
        check_version(cx, mutated.value(), &current)?;
        let prepared = prepare::on_update(cx, mutated, current.read_view(), part)?;
        let admitted = validate::on_update(cx, prepared, current.read_view()).await?;
        if let Some(persisted) = persist::update(cx, &current, admitted, options.dry_run).await? {
            return Ok(Reply::persisted(cx, StatusCode::OK, persisted));
        }
    }
    Err(persist::conflict(cx, cx.name()))
}

/// Server-side apply: merges a configuration, and leaves other fields to their managers. Creates
/// the object if it does not exist; it may be created or deleted concurrently.
async fn apply(cx: &RequestContext, body: &[u8], options: &WriteOptions) -> Result<Reply, Status> {
    let config = Config::parse(body);
    let part = Part::of(cx.subresource.as_deref());
    let creates = part == Part::Main || checks::creates_on_update(cx, part);
    for _ in 0..ATTEMPTS {
        let current = match persist::find(cx, cx.name()).await? {
            None if !creates => return Err(persist::not_found(cx, cx.name())),
            current => current,
        };
        let old = current.as_ref().map(Current::object);
        let config = config.as_ref().map_err(Status::clone)?;
        let mut managed = manage::on_apply(cx, &config.value, old, options).await?;
        config.report(cx, options.field_validation)?;
        if old.is_none() {
            checks::refuse_uid(cx, managed.value())?;
        }
        check_namespace(cx, managed.value_mut())?;
        check_named(cx, managed.value())?;
        let Some(current) = &current else {
            let mutated = mutate::on_create(cx, managed).await?;
            checks::check_version_of_create(cx, mutated.value())?;
            let prepared = prepare::on_create(cx, mutated)?;
            checks::authorize_create(cx)?;
            let admitted = validate::on_create(cx, prepared).await?;
            match persist::create(cx, admitted, options.dry_run).await {
                Err(status) if status.reason() == "AlreadyExists" => continue,
                other => return Ok(Reply::persisted(cx, StatusCode::CREATED, other?)),
            }
        };
        let old = current.object();
        let mutated = mutate::on_update(cx, managed, old).await?;
        check_version(cx, mutated.value(), current)?;
        let prepared = prepare::on_update(cx, mutated, current.read_view(), part)?;
        let admitted = validate::on_update(cx, prepared, current.read_view()).await?;
        if let Some(persisted) = persist::update(cx, current, admitted, options.dry_run).await? {
            return Ok(Reply::persisted(cx, StatusCode::OK, persisted));
        }
    }
    Err(persist::conflict(cx, cx.name()))
}

/// `delete`: deletes an object, or marks it for deletion if finalizers or a grace period have to be
/// waited for.
pub(crate) async fn delete(
    cx: &RequestContext,
    name: &str,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    delete_if(cx, name, options, Admission::Run).await
}

/// Whether a deletion is admitted.
#[derive(Clone, Copy, PartialEq)]
enum Admission {
    Run,
    Skip,
}

async fn delete_if(
    cx: &RequestContext,
    name: &str,
    options: &DeleteOptions,
    admission: Admission,
) -> Result<Outcome, Status> {
    for _ in 0..ATTEMPTS {
        let current = persist::current(cx, name).await?;
        let old = current.object();
        delete::check_preconditions(cx, name, options, old)?;
        if admission == Admission::Run {
            validate::on_delete(cx, old, options).await?;
        }
        let deletion = delete::decide(cx, options, old);
        let removes = matches!(deletion, Deletion::Remove | Deletion::MarkAndRemove(_));
        let persisted = match deletion {
            Deletion::Keep => persist::keep(cx, &current, options.dry_run).await?,
            Deletion::Mark(marked) => {
                let marked = Admitted::by_server(marked);
                persist::store(cx, &current, marked, options.dry_run).await?
            }
            Deletion::MarkAndRemove(marked) => {
                let marked = Admitted::by_server(marked);
                // Nothing else would delete an object that is only marked.
                let _section = cx.commits.begin();
                match persist::store(cx, &current, marked, options.dry_run).await? {
                    Some(Persisted::Stored(record)) => {
                        Some(persist::remove_marked(cx, name, record).await?)
                    }
                    other => other,
                }
            }
            Deletion::Remove => persist::remove(cx, &current, None, options.dry_run).await?,
        };
        match persisted {
            Some(last) if removes => return Ok(Outcome::Deleted(last)),
            Some(pending) => return Ok(Outcome::Pending(pending)),
            None => {}
        }
    }
    Err(persist::conflict(cx, name))
}

// === the server's own writes ===

/// Creates an object on behalf of the server.
pub(crate) async fn create_internal(
    cx: &RequestContext,
    object: &Value,
) -> Result<Persisted, Status> {
    let options = WriteOptions::internal();
    let body = object.to_string();
    let object = decode::object(cx, body.as_bytes(), options.field_validation)?;
    create_decoded(cx, object, &options).await
}

/// Deletes an object as a consequence of another request, such as an eviction; admission does not
/// run.
pub(crate) async fn delete_internal(
    cx: &RequestContext,
    name: &str,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    delete_if(cx, name, options, Admission::Skip).await
}

/// Updates a part of an object on behalf of the server; `edit` may run several times.
pub(crate) async fn update_internal(
    cx: &RequestContext,
    part: Part<'_>,
    edit: impl Fn(&mut Value) + Send + Sync,
) -> Result<Persisted, Status> {
    let options = WriteOptions::internal();
    for _ in 0..ATTEMPTS {
        let current = persist::current(cx, cx.name()).await?;
        let old = current.object();
        let mut object = Decoded::already_decoded(old.clone());
        edit(object.value_mut());
        checks::set_namespace(cx, object.value_mut());
        let managed = manage::on_update(cx, object, old, &options).await;
        let mutated = mutate::on_update(cx, managed, old).await?;
        check_version(cx, mutated.value(), &current)?;
        let prepared = prepare::on_update(cx, mutated, current.read_view(), part)?;
        let admitted = validate::on_update(cx, prepared, current.read_view()).await?;
        if let Some(persisted) = persist::update(cx, &current, admitted, false).await? {
            return Ok(persisted);
        }
    }
    Err(persist::conflict(cx, cx.name()))
}

/// Stores a change that the server makes on behalf of a client: fields get no manager, and
/// admission does not run. `change` may run several times.
pub(crate) async fn update_stored(
    cx: &RequestContext,
    dry_run: bool,
    change: impl Fn(&Value) -> Result<Value, Status> + Send + Sync,
) -> Result<Persisted, Status> {
    for _ in 0..ATTEMPTS {
        let current = persist::current(cx, cx.name()).await?;
        let changed = Admitted::by_server(change(current.object())?);
        if let Some(persisted) = persist::store(cx, &current, changed, dry_run).await? {
            return Ok(persisted);
        }
    }
    Err(persist::conflict(cx, cx.name()))
}
