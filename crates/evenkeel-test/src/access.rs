//! Records the requests of operators under test, for `evenkeel check --access`.

use std::collections::BTreeSet;
use std::fs::{File, create_dir_all};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use evenkeel_apiserver::AccessTrail;
use parking_lot::Mutex;

/// The variable with the directory that the requests are written to.
const VARIABLE: &str = "EVENKEEL_TEST_ACCESS_DIR";

/// Writes a file per operator when it is dropped: its access report.
pub(crate) struct Recorder {
    directory: PathBuf,
    trail: AccessTrail,
    /// The users of the operators, which end with the name of their managers.
    users: Mutex<BTreeSet<String>>,
}

impl Recorder {
    /// Returns a recorder if the variable is set.
    pub(crate) fn from_env(trail: &AccessTrail) -> Option<Self> {
        let directory = std::env::var_os(VARIABLE).filter(|it| !it.is_empty())?;
        Some(Self::new(directory.into(), trail.clone()))
    }

    fn new(directory: PathBuf, trail: AccessTrail) -> Self {
        Self { directory, trail, users: Mutex::default() }
    }

    /// Records the requests of a user.
    pub(crate) fn add(&self, user: &str) {
        self.users.lock().insert(user.to_owned());
    }

    fn write(&self) -> std::io::Result<()> {
        create_dir_all(&self.directory)?;
        for user in &*self.users.lock() {
            let report = self.trail.report(user, &[]);
            serde_json::to_writer(new_file(&self.directory)?, &report)?;
        }
        Ok(())
    }
}

/// Creates a file that no other test has.
fn new_file(directory: &Path) -> std::io::Result<File> {
    let mut number = 0_u64;
    loop {
        let name = format!("{}-{number}.json", std::process::id());
        match File::create_new(directory.join(name)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            result => return result,
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Err(error) = self.write() {
            let directory = self.directory.display();
            tracing::error!(%directory, %error, "failed to record the requests of a test");
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_apiserver::identity::Identity;
    use evenkeel_apiserver::{AccessReport, ApiServer};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;

    use super::*;

    #[tokio::test]
    async fn each_cluster_writes_the_requests_of_its_operators() {
        let name = format!("evenkeel-test-access-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        for _ in 0..2 {
            let trail = AccessTrail::default();
            let recorder = Recorder::new(directory.clone(), trail.clone());
            let server = ApiServer::builder().record_access(trail).build().await.unwrap();
            for user in ["operator", "other"] {
                let identity = Identity::authenticated(user, ["system:masters"]);
                let client = kube::Client::new(server.service_as(identity), "default");
                let maps = Api::<ConfigMap>::default_namespaced(client);
                maps.list(&Default::default()).await.unwrap();
            }
            recorder.add("operator");
        }
        let files: Vec<_> = directory.read_dir().unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(files.len(), 2);
        for file in files {
            let text = std::fs::read_to_string(file).unwrap();
            let report: AccessReport = serde_json::from_str(&text).unwrap();
            assert_eq!(report.user, "operator");
            assert_eq!(report.used[0].access.resource, "configmaps");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
