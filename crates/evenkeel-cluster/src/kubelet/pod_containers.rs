//! The containers of a pod, in the order in which the kubelet starts them.

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Lifecycle, Pod, Probe};

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Must exit with code 0 before the next container starts.
    Init,
    /// An init container that is always restarted and runs alongside the others.
    Sidecar,
    /// One of `spec.containers`.
    App,
    /// Added to a running pod for debugging.
    Ephemeral,
}

impl Role {
    /// Whether it is one of `spec.initContainers`.
    pub(super) fn is_init(self) -> bool {
        matches!(self, Self::Init | Self::Sidecar)
    }
}

/// One container of a pod.
#[derive(Clone, Copy)]
pub(super) struct PodContainer<'a> {
    pub(super) role: Role,
    pub(super) name: &'a str,
    pub(super) image: &'a str,
    pub(super) pull_policy: &'a str,
    command: Option<&'a [String]>,
    args: Option<&'a [String]>,
    /// None for ephemeral containers, which have no probes, hooks or restart policy.
    pub(super) spec: Option<&'a Container>,
}

/// Returns init containers, then app containers, then ephemeral containers.
pub(super) fn of(pod: &Pod) -> impl Iterator<Item = PodContainer<'_>> {
    let spec = pod.spec.as_ref();
    let inits = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let inits = inits.map(|container| {
        let stays = container.restart_policy.as_deref() == Some("Always");
        PodContainer::new(if stays { Role::Sidecar } else { Role::Init }, container)
    });
    let apps = spec.into_iter().flat_map(|spec| &spec.containers);
    let apps = apps.map(|container| PodContainer::new(Role::App, container));
    let ephemeral = spec.into_iter().flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    inits.chain(apps).chain(ephemeral.map(PodContainer::ephemeral))
}

/// Whether the pod has init containers, sidecars included.
pub(super) fn has_inits(pod: &Pod) -> bool {
    let inits = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
    inits.is_some_and(|inits| !inits.is_empty())
}

impl<'a> PodContainer<'a> {
    fn new(role: Role, container: &'a Container) -> Self {
        Self {
            role,
            name: &container.name,
            image: container.image.as_deref().unwrap_or_default(),
            pull_policy: container.image_pull_policy.as_deref().unwrap_or("IfNotPresent"),
            command: container.command.as_deref(),
            args: container.args.as_deref(),
            spec: Some(container),
        }
    }

    fn ephemeral(container: &'a EphemeralContainer) -> Self {
        Self {
            role: Role::Ephemeral,
            name: &container.name,
            image: container.image.as_deref().unwrap_or_default(),
            pull_policy: container.image_pull_policy.as_deref().unwrap_or("IfNotPresent"),
            command: container.command.as_deref(),
            args: container.args.as_deref(),
            spec: None,
        }
    }

    /// Returns the field path of the container, as used in events.
    pub(super) fn field_path(&self) -> String {
        let list = match self.role {
            Role::Init | Role::Sidecar => "initContainers",
            Role::App => "containers",
            Role::Ephemeral => "ephemeralContainers",
        };
        format!("spec.{list}{{{}}}", self.name)
    }

    /// Returns command and arguments.
    pub(super) fn command_line(&self) -> Vec<&'a str> {
        let words = self.command.into_iter().chain(self.args).flatten();
        words.map(String::as_str).collect()
    }

    pub(super) fn startup(&self) -> Option<&'a Probe> {
        self.spec?.startup_probe.as_ref()
    }

    pub(super) fn readiness(&self) -> Option<&'a Probe> {
        self.spec?.readiness_probe.as_ref()
    }

    pub(super) fn liveness(&self) -> Option<&'a Probe> {
        self.spec?.liveness_probe.as_ref()
    }

    pub(super) fn lifecycle(&self) -> Option<&'a Lifecycle> {
        self.spec?.lifecycle.as_ref()
    }
}
