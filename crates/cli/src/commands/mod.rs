//! The commands, one file each: `Args` defines the arguments, `run` runs it.

#[cfg(target_os = "linux")]
mod agent;
pub(crate) mod completions;
mod credential;
mod demo;
mod doctor;
mod enroll;
mod get;
#[cfg(target_os = "linux")]
mod grant;
pub(crate) mod image;
mod man_pages;
#[cfg(target_os = "linux")]
mod node;
mod plan;
mod plugin_test;
mod proxy;
mod sign;
mod table;
mod unwrap;
mod version;
mod whoami;
mod wrap;

use std::process::ExitCode;

use clap::Subcommand;

use crate::{failure::Failure, globals::Globals, signals};

pub(crate) use self::table::among;

/// The commands. To add one, add a file, a variant, a line in [`Command::run`] and one in the
/// table.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Plan(plan::Args),
    Credential(credential::Args),
    Get(get::Args),
    Whoami(whoami::Args),
    Doctor(Box<doctor::Args>),
    Enroll(enroll::Args),
    #[cfg(target_os = "linux")]
    Login(agent::LoginArgs),
    #[cfg(target_os = "linux")]
    Logout(agent::LogoutArgs),
    #[cfg(target_os = "linux")]
    Agent(agent::Args),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    RunPlugin(agent::RunPluginArgs),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    VerifyCredential(agent::VerifyArgs),
    Sign(sign::Args),
    Wrap(wrap::Args),
    Unwrap(unwrap::Args),
    Proxy(Box<proxy::Args>),
    #[cfg(target_os = "linux")]
    Grant(Box<grant::Args>),
    Demo(demo::Args),
    #[command(hide = true)]
    DemoPlugin(demo::plugin::Args),
    #[command(hide = true)]
    DemoSigner,
    Image(image::Args),
    #[cfg(target_os = "linux")]
    Node(node::Args),
    Plugin(plugin_test::Args),
    Completions(completions::Args),
    #[command(name = "__complete", hide = true)]
    Complete(completions::CompleteArgs),
    Version(version::Args),
    #[command(hide = true)]
    ManPages(man_pages::Args),
}

impl Command {
    pub(crate) fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        if self.runs_plugins() {
            signals::watch();
        }
        match self {
            Self::Plan(args) => plan::run(&args, globals)?,
            Self::Credential(args) => credential::run(&args, globals)?,
            Self::Get(args) => get::run(&args, globals)?,
            Self::Whoami(args) => whoami::run(&args, globals)?,
            Self::Doctor(args) => return doctor::run(&args, globals),
            Self::Enroll(args) => enroll::run(&args, globals)?,
            #[cfg(target_os = "linux")]
            Self::Login(_) => agent::log_in(globals)?,
            #[cfg(target_os = "linux")]
            Self::Logout(args) => agent::log_out(&args, globals)?,
            #[cfg(target_os = "linux")]
            Self::Agent(args) => agent::run(&args, globals)?,
            #[cfg(target_os = "linux")]
            Self::RunPlugin(args) => agent::run_plugin(&args, globals)?,
            #[cfg(target_os = "linux")]
            Self::VerifyCredential(args) => agent::verify_credential(&args, globals)?,
            Self::Sign(args) => sign::run(&args, globals)?,
            Self::Wrap(args) => wrap::run(&args, globals)?,
            Self::Unwrap(args) => unwrap::run(&args, globals)?,
            Self::Proxy(args) => return proxy::run(&args, globals),
            #[cfg(target_os = "linux")]
            Self::Grant(args) => grant::run(&args, globals)?,
            Self::Demo(args) => demo::run(&args, globals)?,
            Self::DemoPlugin(args) => return Ok(demo::plugin::run(&args)),
            Self::DemoSigner => return Ok(keyward_demo::filekey::serve()),
            Self::Image(args) => return image::run(&args, globals),
            #[cfg(target_os = "linux")]
            Self::Node(args) => node::run(&args, globals)?,
            Self::Plugin(args) => return plugin_test::run(args, globals),
            Self::Completions(args) => completions::run(&args)?,
            Self::Complete(args) => completions::complete(args, globals)?,
            Self::Version(args) => version::run(&args)?,
            Self::ManPages(args) => man_pages::run(&args)?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Whether plugins have to be stopped when this process is. Commands that run no plugin have
    /// none; `plugin` may become another program before it starts one, and installs the handler
    /// itself. A command that serves until it is told to stop has its own handler.
    fn runs_plugins(&self) -> bool {
        match self {
            Self::Plan(_) | Self::Plugin(_) => false,
            Self::Completions(_) | Self::Complete(_) | Self::Version(_) | Self::ManPages(_) => {
                false
            }
            #[cfg(target_os = "linux")]
            Self::Agent(_) | Self::RunPlugin(_) | Self::VerifyCredential(_) | Self::Grant(_) => {
                false
            }
            Self::Image(args) => args.runs_plugins(),
            Self::Wrap(_) | Self::Unwrap(_) | Self::Proxy(_) => false,
            Self::DemoPlugin(_) | Self::DemoSigner => false,
            _ => true,
        }
    }
}
