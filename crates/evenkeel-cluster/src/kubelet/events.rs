//! The events a kubelet records about a pod and its containers.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::image::PullError;
use super::pod_containers::PodContainer;
use super::probes::Kind;

/// The message of a pod that ran longer than its deadline.
pub(super) const DEADLINE_EXCEEDED: &str =
    "Pod was active on the node longer than the specified deadline";

/// One event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// The container of the event.
    pub(super) field_path: Option<String>,
}

/// The events of one step of a pod's lifecycle, in order.
pub(super) struct Events<'a> {
    pod: &'a Pod,
    list: Vec<Event>,
}

/// A pod in the format of kubelet messages.
pub(super) struct PodName<'a>(pub(super) &'a Pod);

impl fmt::Display for PodName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectMeta { name, namespace, uid, .. } = &self.0.metadata;
        let [name, namespace, uid] =
            [name, namespace, uid].map(|text| text.as_deref().unwrap_or_default());
        write!(f, "{name}_{namespace}({uid})")
    }
}

impl<'a> Events<'a> {
    pub(super) fn new(pod: &'a Pod) -> Self {
        Self { pod, list: Vec::new() }
    }

    pub(super) fn into_list(self) -> Vec<Event> {
        self.list
    }

    pub(super) fn pull_failed(&mut self, container: &PodContainer<'_>, error: PullError) {
        let (image, message) = (container.image, error.message(container.image));
        match error {
            PullError::InvalidName => self.warn(container, "InspectFailed", message),
            PullError::NeverPull => self.warn(container, "ErrImageNeverPull", message),
            PullError::NotFound => {
                self.note(container, "Pulling", format!("Pulling image {image:?}"));
                self.warn(
                    container,
                    "Failed",
                    format!("Failed to pull image {image:?}: {message}"),
                );
            }
        }
        self.warn(container, "Failed", format!("Error: {}", error.reason()));
    }

    pub(super) fn pull_backs_off(&mut self, container: &PodContainer<'_>) {
        self.note(container, "BackOff", format!("Back-off pulling image {:?}", container.image));
        self.warn(container, "Failed", "Error: ImagePullBackOff".to_owned());
    }

    /// Records that the image was pulled, or was present, and the container started.
    pub(super) fn started(&mut self, container: &PodContainer<'_>) {
        let image = container.image;
        if container.pull_policy == "Always" {
            self.note(container, "Pulling", format!("Pulling image {image:?}"));
            let message = format!(
                "Successfully pulled image {image:?} in 0s (0s including waiting). Image size: 0 \
                 bytes."
            );
            self.note(container, "Pulled", message);
        } else {
            let message = format!(
                "Container image {image:?} already present on machine and can be accessed by the \
                 pod"
            );
            self.note(container, "Pulled", message);
        }
        self.note(container, "Created", "Container created".to_owned());
        self.note(container, "Started", "Container started".to_owned());
    }

    pub(super) fn restart_backs_off(&mut self, container: &PodContainer<'_>) {
        let (name, pod) = (container.name, PodName(self.pod));
        let message = format!("Back-off restarting failed container {name} in pod {pod}");
        self.warn(container, "BackOff", message);
    }

    pub(super) fn unhealthy(&mut self, failure: &str, container: &PodContainer<'_>) {
        self.warn(container, "Unhealthy", failure.to_owned());
    }

    pub(super) fn stopping(&mut self, container: &PodContainer<'_>) {
        self.note(container, "Killing", format!("Stopping container {}", container.name));
    }

    pub(super) fn replaced(&mut self, container: &PodContainer<'_>) {
        let message = format!("{} definition changed, will be restarted", describe(container));
        self.note(container, "Killing", message);
    }

    pub(super) fn killed(&mut self, container: &PodContainer<'_>, probe: Kind, restarts: bool) {
        let probe = match probe {
            Kind::Startup => "startup",
            Kind::Liveness | Kind::Readiness => "liveness",
        };
        let what = describe(container);
        // A kubelet does not add this for init containers, though it restarts them too.
        let then = if restarts && !container.role.is_init() { ", will be restarted" } else { "" };
        self.note(container, "Killing", format!("{what} failed {probe} probe{then}"));
    }

    pub(super) fn deadline_exceeded(&mut self) {
        self.list.push(Event {
            warning: false,
            reason: "DeadlineExceeded",
            message: DEADLINE_EXCEEDED.to_owned(),
            field_path: None,
        });
    }

    fn note(&mut self, container: &PodContainer<'_>, reason: &'static str, message: String) {
        self.add(false, container, reason, message);
    }

    fn warn(&mut self, container: &PodContainer<'_>, reason: &'static str, message: String) {
        self.add(true, container, reason, message);
    }

    fn add(
        &mut self,
        warning: bool,
        container: &PodContainer<'_>,
        reason: &'static str,
        message: String,
    ) {
        let field_path = Some(container.field_path());
        self.list.push(Event { warning, reason, message, field_path });
    }
}

fn describe(container: &PodContainer<'_>) -> String {
    let kind = if container.role.is_init() { "Init container" } else { "Container" };
    format!("{kind} {}", container.name)
}
