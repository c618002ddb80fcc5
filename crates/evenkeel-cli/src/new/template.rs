//! The templates of new projects. Placeholders are in double braces; there are no conditions, so
//! that each file can be read as what it becomes.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::names::Names;

/// What a new operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Writes a ConfigMap for each object
    Minimal,
    /// Runs a Deployment and a Service for each object
    Deployment,
    /// Keeps a record in an external system for each object, with a finalizer
    ExternalApi,
    /// Sets defaults and rejects invalid objects with admission webhooks
    Webhook,
}

/// One file of a project.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Where a file of a template goes.
#[derive(Clone, Copy)]
enum Place {
    /// The directory of the project.
    Root(&'static str),
    /// The package of the types: `api.rs` in the operator's sources, or a package of its own.
    Api,
    /// The sources of the operator.
    Source(&'static str),
    /// The module of the kind.
    Module,
    /// The test of the kind.
    Test,
    /// The sample of the kind.
    Sample,
}

/// Expands to the place and the text of a template file.
macro_rules! file {
    ($place:expr, $path:literal) => {
        ($place, include_str!(concat!("../../templates/", $path, ".tmpl")))
    };
}

const COMMON: &[(Place, &str)] = &[
    file!(Place::Root("README.md"), "common/README.md"),
    file!(Place::Root("evenkeel.toml"), "common/evenkeel.toml"),
    file!(Place::Root(".gitignore"), "common/gitignore"),
    file!(Place::Root(".github/workflows/ci.yml"), "common/ci.yml"),
    file!(Place::Source("main.rs"), "common/main.rs"),
];

impl Template {
    fn files(self) -> &'static [(Place, &'static str)] {
        match self {
            Self::Minimal => &[
                file!(Place::Source("lib.rs"), "minimal/lib.rs"),
                file!(Place::Api, "minimal/api.rs"),
                file!(Place::Module, "minimal/controller.rs"),
                file!(Place::Test, "minimal/test.rs"),
                file!(Place::Sample, "minimal/sample.yaml"),
            ],
            Self::Deployment => &[
                file!(Place::Source("lib.rs"), "deployment/lib.rs"),
                file!(Place::Api, "deployment/api.rs"),
                file!(Place::Module, "deployment/controller.rs"),
                file!(Place::Test, "deployment/test.rs"),
                file!(Place::Sample, "deployment/sample.yaml"),
            ],
            Self::ExternalApi => &[
                file!(Place::Source("lib.rs"), "external-api/lib.rs"),
                file!(Place::Source("provider.rs"), "external-api/provider.rs"),
                file!(Place::Api, "external-api/api.rs"),
                file!(Place::Module, "external-api/controller.rs"),
                file!(Place::Test, "external-api/test.rs"),
                file!(Place::Sample, "external-api/sample.yaml"),
            ],
            Self::Webhook => &[
                file!(Place::Source("lib.rs"), "webhook/lib.rs"),
                file!(Place::Source("webhook.rs"), "webhook/webhook.rs"),
                file!(Place::Api, "webhook/api.rs"),
                file!(Place::Module, "webhook/controller.rs"),
                file!(Place::Test, "webhook/test.rs"),
                file!(Place::Sample, "webhook/sample.yaml"),
            ],
        }
    }
}

const MANIFEST: &str = include_str!("../../templates/common/Cargo.toml.tmpl");
const API_MANIFEST: &str = include_str!("../../templates/common/api-Cargo.toml.tmpl");

/// The project to create.
pub(crate) struct Project<'a> {
    pub(crate) names: &'a Names,
    pub(crate) namespaced: bool,
    /// Whether the types get a package of their own.
    pub(crate) workspace: bool,
    /// Whether the project must not become part of a workspace around it.
    pub(crate) standalone: bool,
    /// The checkout that the project depends on.
    pub(crate) checkout: &'a Path,
}

impl Project<'_> {
    /// Returns the files of the project, relative to its directory.
    pub(crate) fn files(&self, template: Template) -> Vec<File> {
        let mut files = self.manifests();
        for (place, text) in COMMON.iter().chain(template.files()) {
            files.push(File { path: self.path(*place), text: self.render(text) });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }

    /// Returns the files of a kind that is added to the project: the type, the reconciler, the test
    /// and the sample. The type is in a module of its own below `api`.
    pub(crate) fn kind_texts(&self) -> [String; 4] {
        let texts = [
            include_str!("../../templates/minimal/api.rs.tmpl"),
            include_str!("../../templates/minimal/controller.rs.tmpl"),
            include_str!("../../templates/minimal/test.rs.tmpl"),
            include_str!("../../templates/minimal/sample.yaml.tmpl"),
        ];
        let own_module =
            |text: &str| text.replace("::api::{{Kind}}", "::api::{{module}}::{{Kind}}");
        // The samples of two kinds must not have the same ConfigMap.
        let sample = format!("{}-sample", self.names.module.replace('_', "-"));
        let own_sample = |text: String| {
            let text = text.replace("name: sample", &format!("name: {sample}"));
            text.replace("\"default\", \"sample\"", &format!("\"default\", {sample:?}"))
        };
        texts.map(|text| own_sample(self.render(&own_module(text))))
    }

    fn manifests(&self) -> Vec<File> {
        let operator = self.render(MANIFEST);
        if !self.workspace {
            let own = if self.standalone { "\n[workspace]\n" } else { "" };
            return vec![File { path: "Cargo.toml".into(), text: operator + own }];
        }
        let api = format!("{}-api", self.names.operator);
        let dependency = format!("[dependencies]\n{api} = {{ path = \"../api\" }}\n");
        let root = "[workspace]\nresolver = \"3\"\nmembers = [\"api\", \"operator\"]\n";
        vec![
            File { path: "Cargo.toml".into(), text: root.to_owned() },
            File { path: "api/Cargo.toml".into(), text: self.render(API_MANIFEST) },
            File {
                path: "operator/Cargo.toml".into(),
                text: operator.replace("[dependencies]\n", &dependency),
            },
        ]
    }

    fn path(&self, place: Place) -> PathBuf {
        let module = &self.names.module;
        let operator = if self.workspace { "operator/" } else { "" };
        match place {
            Place::Root(path) => path.into(),
            Place::Api if self.workspace => "api/src/lib.rs".into(),
            Place::Api => "src/api.rs".into(),
            Place::Source(path) => format!("{operator}src/{path}").into(),
            Place::Module => format!("{operator}src/{module}.rs").into(),
            Place::Test => format!("{operator}tests/{module}.rs").into(),
            Place::Sample => format!("{operator}samples/{module}.yaml").into(),
        }
    }

    fn render(&self, text: &str) -> String {
        let names = self.names;
        let api_module = match self.workspace {
            true => format!("pub use {}_api as api;", names.library),
            false => "pub mod api;".to_owned(),
        };
        let krate = |name: &str| {
            let path = self.checkout.join("crates").join(name);
            format!("path = {:?}", path.display().to_string())
        };
        let namespaced = if self.namespaced { ", namespaced" } else { "" };
        // Children of cluster-scoped objects need a namespace.
        let (line, json, key) = match self.namespaced {
            true => ("", "", "Key::of(&object)"),
            false => (
                "\n    map.metadata.namespace = Some(\"default\".to_owned());",
                "\"namespace\": \"default\", ",
                "Key::namespaced(\"default\", \"sample\")",
            ),
        };
        let values = [
            ("{{name}}", &*names.operator),
            ("{{crate}}", &names.library),
            ("{{Kind}}", &names.kind),
            ("{{module}}", &names.module),
            ("{{group}}", &names.group),
            ("{{version}}", &names.version),
            ("{{api-module}}", &api_module),
            ("{{evenkeel}}", &krate("evenkeel")),
            ("{{evenkeel-test}}", &krate("evenkeel-test")),
            ("{{namespaced}}", namespaced),
            ("{{child-namespace-line}}", line),
            ("{{child-namespace-json}}", json),
            ("{{child-key}}", key),
        ];
        values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(template: Template, namespaced: bool, workspace: bool) -> Vec<File> {
        let names = Names::new("web-operator", Some("Website"), "example.com", "v1").unwrap();
        let checkout = Path::new("/evenkeel");
        let project = Project { names: &names, namespaced, workspace, standalone: false, checkout };
        project.files(template)
    }

    #[test]
    fn every_template_is_small_and_completely_rendered() {
        for template in Template::value_variants() {
            for (namespaced, workspace) in [(true, false), (false, false), (true, true)] {
                let files = files(*template, namespaced, workspace);
                let lines: usize = files.iter().map(|file| file.text.lines().count()).sum();
                let limit = if workspace { 14 } else { 12 };
                assert!(files.len() <= limit, "{template:?}: {} files", files.len());
                assert!(lines <= 250, "{template:?}: {lines} lines");
                for file in files {
                    assert!(!file.text.contains("{{"), "{template:?}: {}", file.path.display());
                }
            }
        }
    }
}
