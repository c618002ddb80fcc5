//! The controllers of a cluster, by the names `kube-controller-manager` gives them.

use evenkeel::{BoxError, Manager};

use crate::StartError;
use crate::settings::Settings;

type Register = fn(&Manager, &Settings) -> Result<(), BoxError>;

/// Every controller; the order has no meaning.
const ALL: &[(&str, Register)] = &[];

/// Registers all that are not switched off.
pub(crate) fn register(manager: &Manager, settings: &Settings) -> Result<(), StartError> {
    for (name, register) in ALL {
        if !settings.without.contains(*name) {
            register(manager, settings)
                .map_err(|source| StartError::Controller { name, source })?;
        }
    }
    Ok(())
}
