//! Computes the answers to the requests that the endpoint receives.

use super::REFUSED;
use crate::clock;
use crate::local;
use crate::losses;
use crate::metadata;
use crate::python_requests::{self, RequestKind};
use crate::recorder::{self, SessionFacts};
use crate::registry;
use crate::sampling;
use crate::settings;
use crate::trace;
use marey_model::endpoint::{COLLECTIVE, Facts, Request, SAMPLED, SAVED, SETTING_NOTE, WATCHES};
use marey_model::setting::{self, Setting};
use std::sync::atomic::Ordering;

/// Returns the answer to a request. An error is a sentence without a period.
pub(super) fn answer(
    request: &Request,
    has_client_gone: &dyn Fn() -> bool,
) -> Result<Facts, String> {
    let ask_python = |kind, text| python_requests::ask(kind, text, has_client_gone);
    match request {
        Request::Status => Ok(status()),
        Request::Flush => {
            recorder::write_checkpoints();
            Ok(status())
        }
        Request::Save => {
            recorder::write_checkpoints();
            let saved = trace::save_ring().transpose().map_err(|error| error.to_string())?;
            let mut facts = status();
            if let Some(path) = saved {
                facts.add(SAVED, path.display());
            }
            Ok(facts)
        }
        Request::Sample => {
            if !trace::is_recording() {
                return Err("the process records no trace".to_owned());
            }
            let threads = ask_python(RequestKind::Sample, String::new())?;
            let mut facts = status();
            facts.add(SAMPLED, threads);
            Ok(facts)
        }
        Request::Collective => {
            if !trace::is_recording() || !sampling::finds_collectives() {
                return Err("the process records no collectives of torch.distributed".to_owned());
            }
            let last = ask_python(RequestKind::Collective, String::new())?;
            let mut facts = Facts::default();
            facts.add(COLLECTIVE, last);
            Ok(facts)
        }
        Request::Settings => Ok(settings_facts()),
        Request::Set { key, value } => {
            let setting = settings::parse_and_set(key, value).map_err(|invalid| invalid.0)?;
            let has_noticed = python_requests::notify(has_client_gone);
            let mut facts = settings_facts();
            let unnoticed = || (!has_noticed && sampling::lacks_thread()).then_some(UNNOTICED);
            if let Some(reason) = without_effect(setting).or_else(unnoticed) {
                facts.add(SETTING_NOTE, reason);
            }
            Ok(facts)
        }
        Request::Watch { .. } | Request::Unwatch { .. } | Request::Watches => {
            let watches = ask_python(RequestKind::Watches, request.words())?;
            let mut facts = Facts::default();
            facts.add(WATCHES, watches);
            Ok(facts)
        }
    }
}

/// The reason why sampling has not begun although a setting says so.
const UNNOTICED: &str = "nothing is sampled yet, because its main thread runs no Python and has as many \
                         pending calls (Py_AddPendingCall) as it can have; set it again once it does";

/// Returns the reason why a setting that is on has no effect now, if there is one.
fn without_effect(setting: Setting) -> Option<&'static str> {
    let is_on = settings::is_on(setting);
    match setting {
        Setting::SampleInterval
        | Setting::SampleScope
        | Setting::SampleSignal
        | Setting::SampleSlowStep
            if is_on && !trace::is_recording() =>
        {
            Some(
                "nothing is sampled, because the process records no trace (data=\"trace\" or \"ring\")",
            )
        }
        Setting::TorchShapes if is_on && !settings::is_on(Setting::TorchOperators) => {
            Some("no shapes are recorded while operators are not (`torch.operators`)")
        }
        Setting::TorchMemory | Setting::TorchOperators | Setting::TorchShapes
            if is_on && local::completed_steps() == 0 =>
        {
            Some(
                "it begins at the end of the first training step, which PyTorch's hooks see \
                 (marey.torch.enable()); none has ended yet",
            )
        }
        _ => None,
    }
}

/// Returns the values of all settings.
fn settings_facts() -> Facts {
    let mut facts = Facts::default();
    for declared in &setting::ALL {
        facts.add(declared.key, settings::text(declared));
    }
    facts
}

/// Returns the facts about the process, its sessions and its losses.
fn status() -> Facts {
    let mut facts = Facts::default();
    facts.add("pid", std::process::id());
    facts.add("version", env!("CARGO_PKG_VERSION"));
    if let Some(rank) = metadata::rank() {
        facts.add("rank", rank);
    }
    facts.add("steps", local::completed_steps());
    facts.add("events", registry::totals().events);
    for session in recorder::describe_sessions() {
        add_session(&mut facts, &session);
    }
    for (cause, count) in losses::snapshot().into_iter().filter(|&(_, count)| count > 0) {
        facts.add(format!("loss.{}", cause.as_str()), count);
    }
    facts.add("refused_connections", REFUSED.load(Ordering::Relaxed));
    facts
}

fn add_session(facts: &mut Facts, session: &SessionFacts) {
    let mut add =
        |key: &str, value: &str| facts.add(format!("session.{}.{key}", session.id), value);
    if let Some(file) = &session.file {
        add("file", file);
    }
    if let Some(run) = &session.run {
        add("run", run);
    }
    add("format", session.format.as_str());
    add("active", if session.is_active { "true" } else { "false" });
    add("phase", &session.phase.to_string());
    let age_nanos = clock::nanos_since(session.start_ticks);
    add("age_s", &format!("{:.3}", age_nanos as f64 / 1e9));
}
