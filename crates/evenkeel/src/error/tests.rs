//! Tests of errors: chains, wrapped errors, and causes that are not printed.

use super::*;
use crate::cache::{DeclareError, FailureReason, ReadError, SyncError, WatchFailure};
use crate::client::{self, RequestInfo, Target};
use crate::controller::WatchError;
use crate::key::Key;
use crate::kind::Kind;
use crate::manager::{ConfigError, RegisterError, RunError};
use crate::owner::OwnerError;
use crate::{AdoptError, manifest};

#[derive(Debug, thiserror::Error)]
#[error("cannot start")]
struct Outer(#[source] Middle);

/// Prints its source, as errors of other crates do.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the kubeconfig: {0}")]
struct Middle(#[source] std::io::Error);

fn failed() -> Result<()> {
    let missing = std::io::Error::other("no such file");
    Err(Outer(Middle(missing)))?;
    Ok(())
}

#[test]
fn debug_prints_the_message_and_each_cause_once() {
    let error = failed().unwrap_err();
    let lines = "cannot start\n  caused by: cannot read the kubeconfig: no such file";
    assert_eq!(format!("{error:?}"), lines);
    assert_eq!(format!("{error:#}"), "cannot start: cannot read the kubeconfig: no such file");
    assert_eq!(error.to_string(), "cannot start");
}

#[test]
fn texts_and_boxed_errors_convert() {
    let from_text = || -> Result<()> { Err("plain")? };
    assert_eq!(format!("{:?}", from_text().unwrap_err()), "plain");
    let from_box = || -> Result<()> { Err(BoxError::from("boxed"))? };
    assert_eq!(format!("{:?}", from_box().unwrap_err()), "boxed");
    assert!(failed().unwrap_err().downcast_ref::<Outer>().is_some());
}

#[test]
fn wrapped_errors_are_found() {
    let delay = std::time::Duration::from_secs(1);
    let outer = || failed().unwrap_err();
    for error in [outer(), terminal(outer()), retry_after(terminal(outer()), delay)] {
        assert!(error.find::<Outer>().is_some(), "{error:?}");
        assert!(error.find::<std::io::Error>().is_some(), "{error:?}");
        assert!(error.find::<fmt::Error>().is_none());
        assert_eq!(format!("{error:#}"), "cannot start: cannot read the kubeconfig: no such file");
    }
    let transparent = Error::new(Transparent(terminal(outer()).into_boxed()));
    assert!(transparent.find::<Outer>().is_some());
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Transparent(BoxError);

/// A value of each error type and variant that has a cause.
fn errors_with_causes() -> Vec<BoxError> {
    let kind = Kind::of::<k8s_openapi::api::core::v1::Pod>();
    let key = Key::new(Some("default"), "web");
    let cause = || BoxError::from("the cause");
    let request_info = || {
        let target = Target::Object(key.clone());
        RequestInfo { verb: "create", kind: kind.clone(), subresource: None, target }
    };
    let no_response = || {
        client::Error::from(client::ErrorKind::NoResponse {
            request_info: request_info(),
            source: cause(),
        })
    };
    let failure = || {
        let reason = FailureReason::Forbidden;
        Some(WatchFailure { message: "the cause".into(), reason })
    };
    let declare = || DeclareError::Undeclared { kind: kind.clone() };
    let failed = || RunError::Failed { name: "probe".to_owned(), source: cause() };
    vec![
        Box::new(no_response()),
        Box::new(client::Error::from(client::ErrorKind::InvalidResponse {
            request_info: request_info(),
            source: cause(),
        })),
        Box::new(client::Error::from(ReadError::NotSynced { kind: kind.clone(), last: failure() })),
        Box::new(ReadError::NotSynced { kind: kind.clone(), last: failure() }),
        Box::new(SyncError::NotSynced { kind: kind.clone(), last: failure() }),
        Box::new(AdoptError::Write(no_response())),
        Box::new(AdoptError::Owner(OwnerError::NoUid { kind: kind.clone(), key: key.clone() })),
        Box::new(WatchError::Declare(declare())),
        Box::new(RegisterError::Watch {
            controller: "web".to_owned(),
            source: Box::new(WatchError::Declare(declare())),
        }),
        Box::new(failed()),
        Box::new(RunError::ShutdownTimedOut {
            names: vec!["web".to_owned()],
            after: Some(Box::new(failed())),
        }),
        Box::new(ConfigError::Kubeconfig { from: "config".to_owned(), source: cause() }),
        Box::new(ConfigError::InCluster(cause())),
        Box::new(ConfigError::Client(cause())),
        Box::new(manifest::yaml(&Unserializable).unwrap_err()),
        terminal(no_response()).into_boxed(),
        retry_after(no_response(), std::time::Duration::from_secs(1)).into_boxed(),
        Error::new(Transparent(terminal(no_response()).into_boxed())).into_boxed(),
    ]
}

struct Unserializable;

impl serde::Serialize for Unserializable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("the cause"))
    }
}

#[test]
fn no_error_prints_its_source() {
    for error in errors_with_causes() {
        let mut texts: Vec<String> = causes(&*error).map(ToString::to_string).collect();
        let whole = chain(&*error);
        assert_eq!(whole.matches("the cause").count().max(1), 1, "{whole}");
        while let Some(cause) = texts.pop() {
            for text in &texts {
                assert!(!text.contains(&cause), "{error:?} prints its cause: {text:?}, {cause:?}");
            }
        }
    }
}
