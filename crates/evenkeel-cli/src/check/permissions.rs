//! The permissions of an operator, compared with the requests that its tests recorded.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use evenkeel_apiserver::{Access, AccessReport, MinimalRole, PolicyRule};
use serde_json::Value;

use super::Finding;
use crate::manifests::model::Model;

/// Compares the permissions of the operator with the access reports in a directory. Also returns the
/// roles that its requests needed.
///
/// # Errors
/// If there are none of this operator, or a file is invalid.
pub(super) fn check(
    model: &Model,
    directory: &Path,
) -> anyhow::Result<(Vec<Finding>, Vec<MinimalRole>)> {
    let mut reports = read(directory)?;
    // The users of tests are service accounts with the names of their managers.
    reports.retain(|report| report.user.rsplit(':').next() == Some(&*model.name));
    if reports.is_empty() {
        bail!(
            "{} has no requests of {name}\n\
             hint: record them with `EVENKEEL_TEST_ACCESS_DIR=DIR cargo test`; the manager under test \
             is called {name}",
            directory.display(),
            name = model.name
        );
    }
    let all = [rules(&model.rules)?, rules(&model.namespace_rules)?].concat();
    let mut findings = BTreeSet::new();
    let merged = AccessReport::merged(&model.name, reports.clone(), &all);
    for denied in merged.denied {
        let Access { verb, api_group, resource, path, .. } = denied.access;
        let verbs = vec![verb];
        let rule = match resource.is_empty() {
            true => PolicyRule { verbs, non_resource_urls: vec![path], ..PolicyRule::default() },
            false => PolicyRule {
                verbs,
                api_groups: vec![api_group],
                resources: vec![resource],
                ..PolicyRule::default()
            },
        };
        findings.insert((
            rule.to_string(),
            "used by a test and not granted; add it with ManagerBuilder::rule",
            true,
        ));
    }
    // The other permissions follow from what the operator registers; the author cannot remove them.
    for rule in AccessReport::merged(&model.name, reports, &rules(&model.added_rules)?).unused {
        let problem = "added with ManagerBuilder::rule and used by no test";
        findings.insert((rule.to_string(), problem, false));
    }
    let finding = |(place, problem, breaking): (String, &str, bool)| match breaking {
        true => Finding::breaking(place, problem),
        false => Finding::warning(place, problem),
    };
    Ok((findings.into_iter().map(finding).collect(), merged.minimal))
}

fn rules(rules: &[Value]) -> anyhow::Result<Vec<PolicyRule>> {
    let rules = rules.iter().cloned().map(serde_json::from_value).collect::<Result<_, _>>();
    rules.context("the operator described an invalid rule")
}

fn read(directory: &Path) -> anyhow::Result<Vec<AccessReport>> {
    let failed = || format!("cannot read {}", directory.display());
    let entries = directory.read_dir().with_context(failed)?;
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.with_context(failed)?;
    paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
    paths.sort();
    let mut reports = Vec::new();
    for path in paths {
        let failed = || format!("cannot read {}", path.display());
        let text = std::fs::read_to_string(&path).with_context(failed)?;
        reports.push(serde_json::from_str(&text).with_context(failed)?);
    }
    Ok(reports)
}
