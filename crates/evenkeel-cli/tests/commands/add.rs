//! `evenkeel add`. `cargo xtask templates` builds and tests what it adds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support::{Output, TempDir, run};

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Every command, in an order in which each can run.
const COMMANDS: &[&[&str]] = &[
    &["add", "kind", "Certificate", "--scope", "cluster"],
    &["add", "controller", "node-labels", "--kind", "Node"],
    &["add", "controller", "website-backup", "--kind", "Website"],
    &["add", "webhook", "Website"],
    &["add", "webhook", "Certificate"],
    &["add", "version", "Website", "v1beta1"],
    &["add", "version", "Website", "v2"],
    &["add", "version", "Certificate", "v1alpha1"],
];

/// Creates a project and returns its directory.
pub(crate) fn project(dir: &TempDir, arguments: &[&str]) -> PathBuf {
    let new = ["new", "web-operator", "--evenkeel-path", CHECKOUT, "--kind", "Website"];
    run(&dir.0, &[&new, arguments].concat()).success();
    dir.0.join("web-operator")
}

/// Returns the texts of all files.
fn files(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    for entry in directory.read_dir().unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => drop(files.insert(path.clone(), std::fs::read_to_string(&path).unwrap())),
        }
    }
    files
}

/// Whether `new` is `old` with insertions: all bytes of `old` are there, in their order.
fn contains_all(old: &str, new: &str) -> bool {
    let mut rest = new.bytes();
    old.bytes().all(|byte| rest.any(|it| it == byte))
}

/// Runs a command that must change nothing in the project.
fn refused(project: &Path, arguments: &[&str]) -> Output {
    let before = files(project);
    let output = run(project, arguments);
    assert_eq!(files(project), before, "{output:?}");
    output
}

#[test]
fn everything_is_inserted_once() {
    for layout in [&[][..], &["--workspace"], &["--template", "deployment"]] {
        let dir = TempDir::new(&format!("add{}", layout.concat()));
        let project = project(&dir, layout);
        for command in COMMANDS {
            let before = files(&project);
            let dry_run = refused(&project, &[command, &["--dry-run"][..]].concat()).success();
            let removed = |line: &str| line.starts_with('-') && !line.starts_with("--- ");
            // A second version breaks the line of the first one.
            let broken = usize::from(command.contains(&"v2"));
            let removed = dry_run.stdout.lines().filter(|line| removed(line)).count();
            assert_eq!(removed, broken, "{command:?}: {}", dry_run.stdout);
            let output = run(&project, command).success();
            let after = files(&project);
            for (path, old) in &before {
                let new = &after[path];
                assert!(contains_all(old, new), "{command:?} changed {}: {new}", path.display());
            }
            for (path, new) in &after {
                let name = path.strip_prefix(&project).unwrap().display().to_string();
                let changed = before.get(path) != Some(new);
                assert_eq!(dry_run.stdout.contains(&format!("+++ b/{name}\n")), changed, "{name}");
                let created = format!("Created {name}\n");
                assert_eq!(output.stderr.contains(&created), !before.contains_key(path), "{name}");
            }
            assert_ne!(before, after, "{command:?}");
            let again = refused(&project, command).success();
            assert!(again.stderr.starts_with("Nothing to do: "), "{again:?}");
        }
        let source = if layout == ["--workspace"] { "operator/src/" } else { "src/" };
        let lib = std::fs::read_to_string(project.join(source).join("lib.rs")).unwrap();
        let after = lib.split_once("pub fn register(").unwrap().1;
        for registered in [
            "certificate::CertificateReconciler",
            "node_labels::NodeLabelsReconciler",
            ".named(\"website-backup\")",
            "webhook::<api::Website>()",
            "conversion(api::website_conversion())?",
            "conversion(api::certificate::certificate_conversion())?",
        ] {
            assert_eq!(after.matches(registered).count(), 1, "{registered}: {lib}");
        }
        let api = if layout == ["--workspace"] { "api/src/lib.rs" } else { "src/api.rs" };
        let api = std::fs::read_to_string(project.join(api)).unwrap();
        let spokes = "\n        .spoke::<v1beta1::Website>()\n        .spoke::<v2::Website>()\n}";
        assert!(api.contains(spokes), "{api}");
        let main = std::fs::read_to_string(project.join(source).join("main.rs")).unwrap();
        let crds: Vec<_> = main.lines().filter(|line| line.contains(".crd::<")).collect();
        let expected = [
            "        .crd::<Website>()",
            "        .crd::<web_operator::api::certificate::Certificate>()",
            "        .crd::<web_operator::api::v1beta1::Website>()",
            "        .crd::<web_operator::api::v2::Website>()",
            "        .crd::<web_operator::api::certificate::v1alpha1::Certificate>()",
        ];
        assert_eq!(crds, expected);
        let package = project.join(if layout == ["--workspace"] { "operator" } else { "" });
        for (test, text) in [
            ("certificate", "Certificate"),
            ("certificate_conversion", "api::certificate::certificate_conversion()"),
            ("certificate_webhook", "include_str!(\"../samples/certificate.yaml\")"),
            ("node_labels", "kind: Node\n"),
            ("website_backup", "include_str!(\"../samples/website.yaml\")"),
            ("website_conversion", "api::website_conversion()"),
            ("website_webhook", "cluster.install::<Website>()"),
        ] {
            let test = std::fs::read_to_string(package.join(format!("tests/{test}.rs"))).unwrap();
            assert!(test.contains(text), "{text}: {test}");
        }
        let sample = |name: &str| std::fs::read_to_string(package.join("samples").join(name));
        let other = sample("website.yaml").unwrap().replace("/v1\n", "/v2\n");
        let other = other.replace("name: sample\n", "name: sample-v2\n");
        assert_eq!(sample("website_v2.yaml").unwrap(), other);
        assert!(sample("certificate_v1alpha1.yaml").is_ok());
    }
}

#[test]
fn tests_need_a_sample_that_can_be_found() {
    let dir = TempDir::new("add-sample");
    let project = project(&dir, &[]);
    let sample = project.join("samples/website.yaml");
    let text = std::fs::read_to_string(&sample).unwrap();
    // Two objects in a file, and one that is written in another way.
    std::fs::write(&sample, format!("{text}---\n{text}")).unwrap();
    let output = run(&project, &["add", "webhook", "Website"]).success();
    assert!(output.stderr.contains("samples/ has no file with one Website"), "{output:?}");
    assert!(!project.join("tests/website_webhook.rs").exists());
    let flow =
        "{kind: Website, apiVersion: example.com/v1, metadata: {name: 'sample'}, spec: {}}\n";
    std::fs::write(project.join("samples/other.yaml"), flow).unwrap();
    run(&project, &["add", "controller", "website-backup", "--kind", "Website"]).success();
    run(&project, &["add", "version", "Website", "v2"]).success();
    let test = std::fs::read_to_string(project.join("tests/website_backup.rs")).unwrap();
    assert!(test.contains("samples/other.yaml"), "{test}");
    assert!(!project.join("samples/website_v2.yaml").exists());
}

#[test]
fn edits_keep_comments_and_formatting() {
    let dir = TempDir::new("add-format");
    let project = project(&dir, &[]);
    let path = project.join("src/lib.rs");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("pub mod website;", "pub   mod website  ; // the first — kind");
    let text =
        text.replace("    Ok(())", "    /* all */ let done = ();\n\n    // end\n    Ok( done )");
    std::fs::write(&path, &text).unwrap();
    run(&project.join("src"), &["add", "controller", "zone-labels", "--kind", "Node"]).success();
    let inserted = "    manager\n        .controller(zone_labels::ZoneLabelsReconciler)\n        \
                    .named(\"zone-labels\")\n        .register()?;\n";
    let expected = text
        .replace("the first — kind\n", "the first — kind\npub mod zone_labels;\n")
        .replace("    Ok( done )", &format!("{inserted}    Ok( done )"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn misuse_is_explained() {
    let dir = TempDir::new("add-misuse");
    let output = refused(&dir.0, &["add", "kind", "Certificate"]);
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("`evenkeel new NAME` creates one"), "{output:?}");

    let project = project(&dir, &[]);
    run(&project, &["add", "kind", "Certificate"]).success();
    std::fs::write(project.join("src/backup.rs"), "pub struct Other;\n").unwrap();
    for (arguments, error) in [
        (&["kind", "Website"][..], "the kind Website exists: example.com/v1 in src/api.rs"),
        (&["kind", "Certificate", "--version", "v2"], "`evenkeel add version` adds a version"),
        (&["kind", "certificate"], "invalid kind"),
        (&["kind", "Loop"], "the keyword loop of Rust"),
        (&["kind", "Backup"], "src/backup.rs exists"),
        (&["webhook", "Gateway"], "the kinds of the project: Website, Certificate"),
        (&["webhook", "pods"], "kinds are written as in manifests: Pod\n"),
        (&["version", "website", "v2"], "kinds are written as in manifests: Website\n"),
        (&["controller", "a", "--kind", "Gateway"], "not a kind of this project or of Kubernetes"),
        (&["controller", "a b", "--kind", "Website"], "an example is website-backup"),
        (&["controller", "loop", "--kind", "Website"], "a keyword of Rust"),
        (&["controller", "backup", "--kind", "Website"], "src/backup.rs exists"),
        (&["version", "Pod", "v2"], "Pod is not a kind of this project"),
        (&["version", "Website", "v1"], "has the version v1 already"),
        (&["version", "Website", "2"], "invalid version"),
    ] {
        let output = refused(&project, &[&["add"], arguments].concat());
        assert_eq!((output.code, &*output.stdout), (Some(2), ""), "{output:?}");
        assert!(output.stderr.contains(error), "{output:?}");
    }

    std::fs::write(project.join("src/lib.rs"), "pub mod api;\npub fn (").unwrap();
    let output = refused(&project, &["add", "webhook", "Website"]);
    assert!(output.stderr.contains("src/lib.rs:2:8: "), "{output:?}");
    std::fs::write(project.join("src/lib.rs"), "pub mod api;\n").unwrap();
    let output = refused(&project, &["add", "webhook", "Website"]);
    assert!(output.stderr.contains("no function `register(manager: &Manager)`"), "{output:?}");
}
