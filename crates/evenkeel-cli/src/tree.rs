//! `evenkeel tree`: the objects that an object owns, with their conditions and what blocks their
//! deletion.

mod fetch;

mod render;

use clap::Args;

use crate::output;
use crate::target::TargetArgs;

#[derive(Args)]
#[command(after_help = "Example:\n  evenkeel tree deployment/web -n default")]
pub(crate) struct Tree {
    /// The object as KIND/NAME; the kind as for kubectl: deployment, deploy, deployments.apps
    object: String,
    #[command(flatten)]
    target: TargetArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(tree: &Tree) -> anyhow::Result<()> {
    let connection = tree.target.connect().await?;
    let root = fetch::tree(&connection, &tree.object).await?;
    output::print(&match tree.json {
        true => format!("{:#}\n", root.to_json()),
        false => render::text(&root),
    })
}
