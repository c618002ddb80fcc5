//! Columns of StorageVersions and StorageVersionMigrations.

use super::text::{UNSET, age, join_some, list, name, set_or, str};
use super::{AGE, Column, NAME, Printer};

/// Maximum number of server versions in a cell. The rest is only counted.
const MAX_SHOWN: usize = 3;

pub(super) const STORAGE_VERSION: Printer = Printer {
    columns: &[
        NAME,
        Column::text("CommonEncodingVersion", "Version all servers write."),
        Column::text("StorageVersions", "Version each server writes."),
        AGE,
    ],
    cells: |object, now| {
        let status = &object["status"];
        let versions: Vec<_> = list(&status["storageVersions"])
            .iter()
            .map(|version| {
                format!("{}={}", str(&version["apiServerID"]), str(&version["encodingVersion"]))
            })
            .collect();
        cells![
            name(object),
            set_or(&status["commonEncodingVersion"], UNSET),
            join_some(versions.iter().map(String::as_str), MAX_SHOWN),
            age(object, now),
        ]
    },
};

/// The name column has no format.
pub(super) const STORAGE_VERSION_MIGRATION: Printer = Printer {
    columns: &[
        Column::text("Name", "Name of the object."),
        Column::text("Resource", "Resource whose objects are rewritten."),
        Column::text("Status", "How far the migration has come."),
    ],
    cells: |object, _| {
        let resource = &object["spec"]["resource"];
        let resource = match (str(&resource["resource"]), str(&resource["group"])) {
            (resource, "") => resource.to_owned(),
            (resource, group) => format!("{resource}.{group}"),
        };
        let status = list(&object["status"]["conditions"])
            .iter()
            .filter(|condition| condition["status"] == "True")
            .map(|condition| str(&condition["type"]))
            .rfind(|state| matches!(*state, "Running" | "Failed" | "Succeeded"));
        cells![name(object), resource, status.unwrap_or("Unknown")]
    },
};
