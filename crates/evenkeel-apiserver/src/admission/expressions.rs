//! Expressions of webhooks and policies in a request: the values of their variables.

use std::sync::Arc;

use evenkeel_cel::Value as CelValue;
use evenkeel_cel::admission::{Compiler, Inputs, MatchConditions};
use evenkeel_cel::kubernetes::{Authorizer, Check, Decision, Subject};
use serde_json::Value;

use super::selection;
use crate::authz;
use crate::context::{Attributes, Core};
use crate::identity::{Identity, service_account_groups, service_account_name};
use crate::selector::field::exact_matches;

/// Compiles the `matchConditions` of a webhook or of the spec of a policy.
pub(super) fn match_conditions(compiler: &Compiler, owner: &Value) -> MatchConditions {
    let conditions = owner["matchConditions"].as_array().into_iter().flatten();
    let expressions = conditions.map(|it| it["expression"].as_str().unwrap_or(""));
    MatchConditions::compile(compiler, expressions)
}

/// Returns a compiler with the variables of the spec of a policy.
pub(super) fn policy_compiler(spec: &Value) -> Compiler {
    let mut compiler = Compiler::of_policy(!spec["paramKind"].is_null());
    for variable in spec["variables"].as_array().into_iter().flatten() {
        let text = |field: &str| variable[field].as_str().unwrap_or("");
        // One that does not compile fails when it is read.
        let _ = compiler.variable(text("name"), text("expression"));
    }
    compiler
}

/// Returns the values of the variables of a request. The objects and the request are in the version
/// that the webhook or policy matches.
pub(super) fn inputs<'a>(
    attributes: &Attributes<'_>,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
    request: &'a Value,
) -> Inputs<'a> {
    let value = |json: Option<&'a Value>| json.map_or(CelValue::Null, CelValue::from_json);
    let cx = attributes.cx;
    let authorizer = RequestAuthorizer { core: cx.core.clone(), requestor: cx.identity.clone() };
    let check = Check {
        group: (&*cx.resource.group).into(),
        resource: (&*cx.resource.plural).into(),
        subresource: cx.subresource.as_deref().unwrap_or("").into(),
        namespace: selection::namespace(attributes).into(),
        name: selection::name(attributes).into(),
        ..Check::default()
    };
    Inputs {
        object: value(object),
        old_object: value(old),
        request: CelValue::from_json(request),
        authorizer: Some((Arc::new(authorizer), check)),
        ..Inputs::default()
    }
}

/// Decides about checks of expressions with the authorizer of the server.
struct RequestAuthorizer {
    core: Arc<Core>,
    requestor: Identity,
}

impl Authorizer for RequestAuthorizer {
    fn authorize(&self, check: &Check) -> Decision {
        let account;
        let user = match &check.subject {
            Subject::Requestor => &self.requestor,
            Subject::ServiceAccount { namespace, name } => {
                // Not in the group of authenticated users.
                account = Identity {
                    user: service_account_name(namespace, name),
                    groups: service_account_groups(namespace),
                    ..Identity::default()
                };
                &account
            }
        };
        let selected_fields = exact_matches(&check.field_selector);
        let attributes = authz::Attributes {
            user,
            verb: &check.verb,
            path: check.path.as_deref().unwrap_or(""),
            resource: check.path.is_none().then(|| authz::ResourceAttributes {
                group: &check.group,
                version: "*",
                resource: &check.resource,
                subresource: &check.subresource,
                namespace: &check.namespace,
                name: &check.name,
                selected_fields: &selected_fields,
            }),
        };
        let authorizer = &self.core.authorizer;
        match authorizer.decide(&attributes) {
            authz::Decision::Allow => Decision {
                allowed: true,
                reason: authorizer.allow_reason(&attributes).unwrap_or_default(),
                error: None,
            },
            authz::Decision::Deny(reason) => Decision { allowed: false, reason, error: None },
        }
    }
}
