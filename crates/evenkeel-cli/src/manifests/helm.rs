//! The manifests as a Helm chart: what differs between installations becomes a value.

use serde_json::json;

use super::File;
use super::model::Model;
use super::objects::Document;
use super::settings::Settings;

/// Returns the files of the chart. CRDs are templates, since Helm never upgrades those in `crds/`.
pub(super) fn files(
    documents: &[Document],
    model: &Model,
    settings: &Settings,
) -> anyhow::Result<Vec<File>> {
    let version = model.version.as_deref().unwrap_or("0.1.0");
    let chart = json!({
        "apiVersion": "v2",
        "name": model.name,
        "description": format!("The {} operator", model.name),
        "type": "application",
        "version": version,
        "appVersion": version,
    });
    let values = json!({
        "image": settings.image,
        "replicas": settings.replicas,
        "resources": {"limits": {"cpu": settings.cpu, "memory": settings.memory}},
    });
    let mut files = vec![
        File { path: "Chart.yaml".into(), text: evenkeel::manifest::yaml(&chart)? },
        File { path: "values.yaml".into(), text: evenkeel::manifest::yaml(&values)? },
    ];
    let templates = documents
        .iter()
        // `helm install --create-namespace` creates it.
        .filter(|document| document.object["kind"] != "Namespace");
    for document in templates {
        let text = template(&document.object, settings)?;
        let path = std::path::Path::new("templates").join(document.file);
        match files.iter_mut().find(|file| file.path == path) {
            Some(file) => file.text.push_str(&text),
            None => files.push(File { path, text }),
        }
    }
    Ok(files)
}

/// Returns the YAML of an object with its values replaced by template expressions.
fn template(object: &serde_json::Value, settings: &Settings) -> anyhow::Result<String> {
    let mut yaml = evenkeel::manifest::yaml(object)?;
    // Braces in a CRD's descriptions or patterns are not template expressions.
    yaml = yaml.replace("{{", "{{ \"{{\" }}");
    let mut replace = |prefix: &str, value: &str, expression: &str| {
        let lines = yaml.lines().map(|line| {
            let rest = line.trim_start();
            let indent = &line[..line.len() - rest.len()];
            let found = rest.strip_prefix(prefix).map(|it| it.trim_matches(['"', '\'']));
            match found == Some(value) {
                true => format!("{indent}{prefix}{expression}\n"),
                false => format!("{line}\n"),
            }
        });
        yaml = lines.collect();
    };
    replace("namespace: ", &settings.namespace, "{{ .Release.Namespace }}");
    if object["kind"] == "Deployment" {
        replace("image: ", &settings.image, "{{ .Values.image | quote }}");
        replace("replicas: ", &settings.replicas.to_string(), "{{ .Values.replicas }}");
        replace("cpu: ", &settings.cpu, "{{ .Values.resources.limits.cpu | quote }}");
        replace("memory: ", &settings.memory, "{{ .Values.resources.limits.memory | quote }}");
    }
    Ok(format!("---\n{yaml}"))
}
