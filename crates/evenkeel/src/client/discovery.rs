//! Discovery of kinds that are known only at run time.

use kube::core::{ApiResource, GroupVersionKind};
use serde::Deserialize;

use super::Client;
use super::api_request::ApiRequest;
use super::error::{Error, ErrorKind};
use super::live::decode_response;
use crate::kind::Kind;

impl Client {
    /// Returns the kind that the API server serves as `gvk`, for
    /// [`Manager::dynamic_controller`](crate::Manager::dynamic_controller) and
    /// [`Client::dynamic`].
    ///
    /// ```no_run
    /// use evenkeel::kube::core::GroupVersionKind;
    ///
    /// # async fn example(client: &evenkeel::client::Client) -> evenkeel::Result<()> {
    /// let gvk = GroupVersionKind::gvk("example.com", "v1", "Website");
    /// let kind = client.discover(&gvk).await?;
    /// println!("{kind} is served at {}", kind.path(None));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotServed`] if the API server does not serve it, which is also
    /// [`is_not_found`](Error::is_not_found); other errors when the API server rejects the request
    /// or does not respond.
    pub async fn discover(&self, gvk: &GroupVersionKind) -> Result<Kind, Error> {
        let wanted = Kind::dynamic(&ApiResource::from_gvk(gvk), true);
        let request = ApiRequest::discovery(&wanted);
        let request_info = request.request_info().clone();
        let bytes = match request.send(self).await {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => {
                return Err(ErrorKind::NotServed { kind: wanted }.into());
            }
            Err(error) => return Err(error),
        };
        let list: ResourceList = decode_response(request_info, &bytes)?;
        // A subresource, such as `deployments/scale`, may have the same kind.
        let found = list
            .resources
            .into_iter()
            .find(|resource| resource.kind == gvk.kind && !resource.name.contains('/'));
        let Some(Resource { name, namespaced, .. }) = found else {
            return Err(ErrorKind::NotServed { kind: wanted }.into());
        };
        Ok(Kind::dynamic(&ApiResource::from_gvk_with_plural(gvk, &name), namespaced))
    }
}

/// `metav1.APIResourceList`.
#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
}
