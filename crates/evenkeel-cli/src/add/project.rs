//! The project around the current directory: its packages and kinds.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;

use super::builtin;
use super::plan::Plan;
use super::sample::Sample;
use super::source::Source;

/// A project as `evenkeel new` creates it.
pub(super) struct Project {
    /// The package of the operator.
    pub(super) directory: PathBuf,
    pub(super) package: String,
    /// The library of the package, as a Rust path.
    pub(super) library: String,
    /// The file of the module `api`, which can be the library of a package of its own.
    pub(super) api: PathBuf,
    pub(super) kinds: Vec<CustomKind>,
    pub(super) lib: Source,
    pub(super) main: Source,
}

/// A type that derives `CustomResource`.
pub(super) struct CustomKind {
    pub(super) kind: String,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespaced: bool,
    pub(super) has_status: bool,
    /// The type of the object.
    pub(super) root: String,
    /// The type of the spec.
    pub(super) spec: String,
    /// The names of its fields; none for a tuple.
    pub(super) fields: Option<Vec<String>>,
    /// The text of the spec in parts, which the version joins.
    pub(super) text: Vec<String>,
    /// The module in the library of the operator.
    pub(super) module: Vec<String>,
    pub(super) file: PathBuf,
    /// Whether the module has braces.
    pub(super) inline: bool,
}

impl CustomKind {
    /// Returns the path of the type in the library of the operator.
    pub(super) fn path(&self) -> String {
        let names = self.module.iter().chain([&self.root]);
        names.map(String::as_str).collect::<Vec<_>>().join("::")
    }
}

/// A kind of the project or of Kubernetes.
pub(super) struct Resolved {
    /// The path of the type within the library of the operator.
    pub(super) path: String,
    /// The type.
    pub(super) root: String,
    /// The constant `SAMPLE` of a test with a valid object. None for a kind of the project without a
    /// sample.
    sample: Option<String>,
    custom: bool,
}

impl Project {
    /// Finds and reads the project.
    ///
    /// # Errors
    /// If there is none, or a file of it cannot be parsed.
    pub(super) fn find() -> anyhow::Result<Self> {
        let current = std::env::current_dir().context("cannot read the current directory")?;
        let candidates = current.ancestors().flat_map(|it| [it.to_owned(), it.join("operator")]);
        let Some(directory) = candidates.into_iter().find(|it| is_operator(it)) else {
            bail!(
                "there is no project of an operator in {}: a package with src/lib.rs and \
                 src/main.rs\nhint: `evenkeel new NAME` creates one",
                current.display()
            );
        };
        // Messages name files as a shell in this directory would.
        let directory = match directory.strip_prefix(&current) {
            Ok(relative) => relative.to_owned(),
            Err(_) => directory,
        };
        let manifest = manifest(&directory)?;
        let name = manifest.get("package").and_then(|it| it.get("name")?.as_str());
        let Some(package) = name.map(str::to_owned) else {
            bail!("{} has no package.name", directory.join("Cargo.toml").display());
        };
        let library = manifest.get("lib").and_then(|it| it.get("name")?.as_str());
        let library = library.map_or_else(|| package.replace('-', "_"), str::to_owned);
        let lib = Source::read(&directory.join("src/lib.rs"))?;
        let main = Source::read(&directory.join("src/main.rs"))?;
        let api = api_file(&directory, &manifest, &lib)?;
        let mut kinds = Vec::new();
        scan(&directory.join("src"), &[], &mut kinds)?;
        if !api.starts_with(directory.join("src")) {
            let sources = api.parent().unwrap_or(&api);
            scan(sources, &["api".to_owned()], &mut kinds)?;
        }
        // The hub before the other versions, which are in modules below it.
        kinds.sort_by_key(|it| it.module.len());
        Ok(Self { directory, package, library, api, kinds, lib, main })
    }

    /// Returns the type of a kind: the hub if there are several versions.
    pub(super) fn custom(&self, kind: &str) -> Option<&CustomKind> {
        self.kinds.iter().find(|it| it.kind == kind)
    }

    /// Returns the type of a kind of the project or of Kubernetes.
    ///
    /// # Errors
    /// If the kind is unknown.
    pub(super) fn resolve(&self, kind: &str) -> anyhow::Result<Resolved> {
        if let Some(custom) = self.custom(kind) {
            let sample = Sample::find(&self.directory, custom);
            return Ok(Resolved {
                path: format!("crate::{}", custom.path()),
                root: custom.root.clone(),
                sample: sample.map(|it| format!("include_str!(\"../samples/{}\")", it.file)),
                custom: true,
            });
        }
        match builtin::find(kind) {
            Some((path, sample)) => Ok(Resolved {
                path,
                root: kind.to_owned(),
                sample: Some(format!("\"\\\n{sample}\"")),
                custom: false,
            }),
            None => bail!("{}", self.unknown(kind, " or of Kubernetes")),
        }
    }

    /// Adds the test of a controller or webhook, unless there is one.
    pub(super) fn add_test(&self, plan: &mut Plan, object: &Resolved, module: &str, text: &str) {
        let Some(sample) = &object.sample else {
            let (root, module) = (&object.root, format!("tests/{module}.rs"));
            plan.note(format!("samples/ has no file with one {root}, so {module} is not added."));
            return;
        };
        let library = &*self.library;
        let path = match object.path.strip_prefix("crate::") {
            Some(path) => format!("{library}::{path}"),
            None => object.path.clone(),
        };
        let install = match object.custom {
            true => format!("\n    cluster.install::<{}>().await.unwrap();", object.root),
            false => String::new(),
        };
        let text = text
            .replace("{{use}}", &format!("use {path};"))
            .replace("{{Kind}}", &object.root)
            .replace("{{crate}}", library)
            .replace("{{package}}", &self.package)
            .replace("{{module}}", module)
            .replace("{{install}}", &install)
            .replace("{{sample}}", &format!("const SAMPLE: &str = {sample};"));
        plan.create_missing(&self.directory.join(format!("tests/{module}.rs")), &text);
    }

    /// Returns the message about an unknown kind.
    pub(super) fn unknown(&self, kind: &str, or: &str) -> String {
        let mut known: Vec<&str> = self.kinds.iter().map(|it| &*it.kind).collect();
        known.dedup();
        // Kinds are often written in lower case, or in the plural, as for kubectl.
        let singular = kind.strip_suffix('s').unwrap_or(kind);
        let meant = |it: &&str| [kind, singular].iter().any(|name| name.eq_ignore_ascii_case(it));
        let builtin = || builtin::names().filter(|_| !or.is_empty()).find(meant);
        let hint = match known.iter().copied().find(meant).or_else(builtin) {
            Some(meant) => format!("kinds are written as in manifests: {meant}"),
            None => format!("`evenkeel add kind {kind}` adds it"),
        };
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!(
            "{kind} is not a kind of this project{or}; the kinds of the project: {known}\n\
             hint: {hint}"
        )
    }

    /// Returns the path of a type as code of the library's root refers to it.
    pub(super) fn in_root(path: &str) -> &str {
        path.strip_prefix("crate::").unwrap_or(path)
    }

    /// Adds a CRD to the manager in `main`, after the others.
    ///
    /// # Errors
    /// If `main` has no builder of a manager.
    pub(super) fn add_crd(&mut self, path: &str) -> anyhow::Result<()> {
        let names: Vec<&str> = path.rsplit("::").collect();
        let (root, module) = (names.first().copied(), names.get(1).copied());
        let (Some(root), Some(module)) = (root, module) else { return Ok(()) };
        let calls = self.main.calls().0;
        // With the module, since versions of a kind differ only by it.
        let imported =
            self.main.imports(root) && self.custom(root).is_some_and(|it| it.path() == path);
        let present = calls.iter().any(|it| {
            it.is("crd", &[module, root]) || imported && it.is("crd", &[]) && it.of == [root]
        });
        if present {
            return Ok(());
        }
        let after = calls.iter().rfind(|it| it.is("crd", &[]));
        let after =
            after.or_else(|| calls.iter().find(|it| it.is_function(&["Manager", "builder"])));
        let call = format!(".crd::<{}::{path}>()", self.library);
        let Some(after) = after else {
            let file = self.main.path.display();
            bail!("{file} has no `Manager::builder(..)` that `{call}` could be added to");
        };
        self.main.add_call(after, &call)
    }
}

fn is_operator(directory: &Path) -> bool {
    ["Cargo.toml", "src/lib.rs", "src/main.rs"].iter().all(|it| directory.join(it).is_file())
}

fn manifest(directory: &Path) -> anyhow::Result<toml::Table> {
    let path = directory.join("Cargo.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))
}

/// Returns the file of the module `api`: in the package, or the library of another package that is
/// imported under this name.
fn api_file(directory: &Path, manifest: &toml::Table, lib: &Source) -> anyhow::Result<PathBuf> {
    for file in ["src/api.rs", "src/api/mod.rs"].map(|it| directory.join(it)) {
        if file.is_file() {
            return Ok(file);
        }
    }
    let renamed = lib.tree.items.iter().find_map(|item| match item {
        syn::Item::Use(it) => match &it.tree {
            syn::UseTree::Rename(it) if it.rename == "api" => Some(it.ident.to_string()),
            _ => None,
        },
        _ => None,
    });
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let path = renamed.zip(dependencies).and_then(|(name, dependencies)| {
        let (_, found) = dependencies.iter().find(|(key, _)| key.replace('-', "_") == name)?;
        found.get("path")?.as_str()
    });
    let file = path.map(|it| joined(directory, it).join("src/lib.rs")).filter(|it| it.is_file());
    file.with_context(|| {
        let lib = lib.path.display();
        format!("{lib} has no module `api` for the types, as `evenkeel new` creates it")
    })
}

/// Joins paths, so that `a` and `../b` become `b`.
fn joined(directory: &Path, path: &str) -> PathBuf {
    let mut joined = directory.to_owned();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir
                if matches!(joined.components().next_back(), Some(Component::Normal(_))) =>
            {
                joined.pop();
            }
            other => joined.push(other),
        }
    }
    joined
}

/// Collects the kinds in the sources of a library, whose root is the module `root`.
fn scan(directory: &Path, root: &[String], kinds: &mut Vec<CustomKind>) -> anyhow::Result<()> {
    let shown = || format!("cannot read {}", directory.display());
    let mut paths = Vec::new();
    for entry in directory.read_dir().with_context(shown)? {
        paths.push(entry.with_context(shown)?.path());
    }
    paths.sort();
    for path in paths {
        let Some(stem) = path.file_stem().and_then(|it| it.to_str()) else { continue };
        let below = [root, &[stem.to_owned()]].concat();
        if path.is_dir() && stem != "bin" {
            scan(&path, &below, kinds)?;
        } else if path.extension().is_some_and(|it| it == "rs") && stem != "main" {
            let source = Source::read(&path)?;
            let module = if matches!(stem, "lib" | "mod") { root } else { &below };
            collect(&source, &source.tree.items, module, false, kinds);
        }
    }
    Ok(())
}

fn collect(
    source: &Source,
    items: &[syn::Item],
    module: &[String],
    inline: bool,
    kinds: &mut Vec<CustomKind>,
) {
    for item in items {
        match item {
            syn::Item::Struct(it) => kinds.extend(custom_kind(source, it, module, inline)),
            syn::Item::Mod(it) => {
                let Some((_, items)) = &it.content else { continue };
                let module = [module, &[it.ident.to_string()]].concat();
                collect(source, items, &module, true, kinds);
            }
            _ => {}
        }
    }
}

/// Returns the kind of a struct with `#[kube(group = .., version = .., kind = ..)]`.
fn custom_kind(
    source: &Source,
    item: &syn::ItemStruct,
    module: &[String],
    inline: bool,
) -> Option<CustomKind> {
    let (mut group, mut version, mut kind, mut root) = (None, None, None, None);
    let (mut namespaced, mut has_status) = (false, false);
    for attribute in item.attrs.iter().filter(|it| it.path().is_ident("kube")) {
        let parser = Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
        for meta in attribute.parse_args_with(parser).ok()? {
            let name = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
            let value = match &meta {
                syn::Meta::NameValue(it) => match &it.value {
                    syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text),
                    _ => None,
                },
                _ => None,
            };
            match &*name {
                "group" => group = value.map(syn::LitStr::value),
                "version" => version = value.map(|it| (it.value(), it.span())),
                "kind" => kind = value.map(syn::LitStr::value),
                "root" => root = value.map(syn::LitStr::value),
                "namespaced" => namespaced = true,
                "status" => has_status = true,
                _ => {}
            }
        }
    }
    let (group, (version, version_span), kind) = (group?, version?, kind?);
    let (all, literal) = (source.range(item.span()), source.range(version_span));
    let part = |range| source.text.get(range).map(str::to_owned);
    let fields = match &item.fields {
        syn::Fields::Named(fields) => {
            let names = fields.named.iter().filter_map(|it| it.ident.as_ref());
            Some(names.map(ToString::to_string).collect())
        }
        syn::Fields::Unit | syn::Fields::Unnamed(_) => None,
    };
    Some(CustomKind {
        text: vec![part(all.start..literal.start)?, part(literal.end..all.end)?],
        root: root.unwrap_or_else(|| kind.clone()),
        spec: item.ident.to_string(),
        module: module.to_vec(),
        file: source.path.clone(),
        kind,
        group,
        version,
        namespaced,
        has_status,
        fields,
        inline,
    })
}
