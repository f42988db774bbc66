//! The sentence that says which rank a job waits for, where and since when.

use std::collections::BTreeMap;
use std::path::Path;

use super::judge::{self, HangCause};
use super::observe::{Member, MemberState};
use super::place::{self, Place};
use super::{EndedProcess, Hang, LastCollective};
use crate::Frame;

/// Members that a sentence describes one by one.
const MAX_DESCRIBED: usize = 3;

/// Returns the sentence of a job.
pub(super) fn of_hang(hang: &Hang) -> String {
    let mut sentence = match hang.cause {
        HangCause::DeadRank => dead_clause(hang),
        HangCause::None => "The job goes on: the stacks of its ranks change".to_owned(),
        HangCause::AllWait => all_wait_clause(hang),
        _ => odd_clause(hang),
    };
    if let Some(others) = others_clause(hang) {
        sentence.push_str("; ");
        sentence.push_str(&others);
    }
    if let Some(collectives) = collectives_clause(&hang.collectives) {
        sentence.push_str(". By the flight recorder, ");
        sentence.push_str(&collectives);
    }
    sentence.push('.');
    for host in hang.hosts.iter().filter(|host| host.problem.is_some()) {
        sentence.push_str(" Host ");
        sentence.push_str(&host.name);
        sentence.push_str(" has not answered.");
    }
    sentence
}

fn dead_clause(hang: &Hang) -> String {
    let ended_member =
        |member: &Member| EndedProcess { host: member.host.clone(), pid: member.pid };
    let mut ended = hang.ended.clone();
    ended.extend(hang.odd.iter().map(|&index| ended_member(&hang.members[index])));
    let subject = match &hang.absent[..] {
        [] => subject_of(hang, &hang.odd),
        absent => sentence_case(&rank_list(absent)),
    };
    let verb = if hang.absent.len().max(hang.odd.len()) > 1 { "have" } else { "has" };
    let reached = if hang.hosts.is_empty() { "of this host" } else { "that was reached" };
    match &ended[..] {
        [] => format!("{subject} {verb} ended: no process {reached} has that rank"),
        [_] => format!("{subject} {verb} ended: process {} is a zombie", zombie_list(&ended)),
        _ => format!("{subject} {verb} ended: processes {} are zombies", zombie_list(&ended)),
    }
}

/// Lists processes by their hosts: `12-13, 20 on node2`.
fn zombie_list(ended: &[EndedProcess]) -> String {
    let mut by_host: BTreeMap<Option<&str>, Vec<u32>> = BTreeMap::new();
    for EndedProcess { host, pid } in ended {
        by_host.entry(host.as_deref()).or_default().push(*pid);
    }
    let parts = by_host.into_iter().map(|(host, mut pids)| {
        pids.sort_unstable();
        match host {
            Some(host) => format!("{} on {host}", number_list(&pids)),
            None => number_list(&pids),
        }
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn all_wait_clause(hang: &Hang) -> String {
    let is_on_gpu = hang.members.iter().any(|member| matches!(member.place, Place::Gpu { .. }));
    let first = hang.members.first().map(activity).unwrap_or_default();
    let count = hang.members.len();
    let hint = match hang.world_size {
        Some(size) if size as usize > count => {
            format!("look at the hosts of the other {} ranks", size as usize - count)
        }
        _ if is_on_gpu
            && hang.members.iter().any(|member| hang.last_collective(member).is_none()) =>
        {
            "the dumps of a flight recorder (--flight-recorder DIR) tell which one is late"
                .to_owned()
        }
        _ => "none is late, so look at the network and the backend".to_owned(),
    };
    let reached = if hang.hosts.is_empty() { "of this host" } else { "that were reached" };
    let what = if is_on_gpu { "wait for the GPU" } else { "are in one collective" };
    format!("All {count} ranks {reached} {what}: each {first}; {hint}")
}

fn odd_clause(hang: &Hang) -> String {
    let mut parts: Vec<String> = Vec::new();
    for &index in hang.odd.iter().take(MAX_DESCRIBED) {
        let member = &hang.members[index];
        parts.push(format!("{} {}", member_name(member), activity(member)));
        parts.extend(child_clause(member));
    }
    if hang.odd.len() > MAX_DESCRIBED {
        parts.push(format!("so do {} more ranks", hang.odd.len() - MAX_DESCRIBED));
    }
    sentence_case(&parts.join("; "))
}

/// Returns the clause about the members that wait for the odd ones; `None` if there are none.
fn others_clause(hang: &Hang) -> Option<String> {
    if matches!(hang.cause, HangCause::AllWait | HangCause::None) {
        return None;
    }
    let is_other = |index: &usize| !hang.odd.contains(index);
    let others: Vec<usize> = (0..hang.members.len()).filter(is_other).collect();
    // The largest group of the other members stands for all of them.
    let group = hang.groups.iter().find(|group| group.iter().any(is_other))?;
    let first = &hang.members[*group.iter().find(|index| is_other(index))?];
    let subject = match others.len() {
        1 => member_name(first),
        count => format!("the other {count} ranks"),
    };
    let verb = if others.len() == 1 { "waits" } else { "wait" };
    let verb = if judge::is_in_collective(first) { verb } else { "are" };
    let since = longest_idle(hang, &others).map(idle_clause).unwrap_or_default();
    Some(format!("{subject} {verb} in {}{since}", location(first)))
}

fn longest_idle(hang: &Hang, members: &[usize]) -> Option<f64> {
    let idle = members.iter().filter_map(|&index| hang.members[index].idle_secs);
    idle.max_by(f64::total_cmp)
}

/// Returns the clause about a child that its parent may wait for; `None` if there is no such child.
fn child_clause(member: &Member) -> Option<String> {
    let children = || member.children.iter();
    let dead = children().find(|child| child.state == MemberState::Ended);
    if let Some(dead) = dead {
        return Some(format!("its child process {} has ended", dead.pid));
    }
    let is_at_work =
        |child: &&Member| !child.frames.is_empty() && !place::is_idle_worker(&child.frames);
    let is_loader = member.place == Place::DataLoader;
    let child = children().filter(|_| is_loader).find(is_at_work)?;
    Some(format!("its worker process {} {}", child.pid, activity(child)))
}

/// Returns the activity of a member, as the predicate of a sentence.
fn activity(member: &Member) -> String {
    let what = match (&member.place, member.state) {
        (_, MemberState::Ended) => return "has ended".to_owned(),
        (_, MemberState::Unreadable) => return "cannot be read".to_owned(),
        (_, MemberState::Stopped) => "is stopped by a debugger or a signal".to_owned(),
        (Place::DataLoader, _) => "waits for its data loader".to_owned(),
        (Place::Gpu { name }, _) => format!("waits for the GPU (`{name}`)"),
        (Place::Collective { .. }, MemberState::Waits) => "waits".to_owned(),
        (_, MemberState::Runs) if member.is_moving => "still runs, its stack changes,".to_owned(),
        (_, MemberState::Runs) => "runs".to_owned(),
        (_, MemberState::Waits) => match &member.wait {
            Some(wait) => wait.to_string(),
            None => "sleeps".to_owned(),
        },
    };
    let since = member.idle_secs.map(idle_clause).unwrap_or_default();
    format!("{what} in {}{since}", location(member))
}

/// Returns the collective or function that a member is in, with the line of the program.
fn location(member: &Member) -> String {
    let at = source_line(&member.frames);
    match (&member.place, place::program_frame(&member.frames)) {
        (Place::Collective { name }, _) => format!("`{name}`{at}"),
        (_, Some(frame)) => format!("`{}`{at}", frame.function),
        (_, None) => "native code".to_owned(),
    }
}

fn source_line(frames: &[Frame]) -> String {
    let Some(frame) = place::program_frame(frames) else { return String::new() };
    let file = Path::new(&frame.file).file_name().unwrap_or_default().to_string_lossy();
    format!(" ({file}:{})", frame.line)
}

fn idle_clause(idle_secs: f64) -> String {
    let whole_secs = idle_secs as u64;
    let (hours, minutes, secs) = (whole_secs / 3_600, whole_secs / 60 % 60, whole_secs % 60);
    match (hours, minutes) {
        (0, 0) => format!(" for at least {secs} s"),
        (0, _) => format!(" for at least {minutes} min {secs} s"),
        _ => format!(" for at least {hours} h {minutes} min"),
    }
}

fn member_name(member: &Member) -> String {
    let host = member.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
    match &member.rank {
        Some(rank) => format!("rank {} (process {}{host})", rank.rank, member.pid),
        None => format!("process {}{host}", member.pid),
    }
}

fn subject_of(hang: &Hang, members: &[usize]) -> String {
    let names: Vec<String> =
        members.iter().map(|&index| member_name(&hang.members[index])).collect();
    sentence_case(&names.join(", "))
}

/// Returns the ranks by their collectives, as a sentence; `None` without a flight recorder.
fn collectives_clause(collectives: &[LastCollective]) -> Option<String> {
    let mut by_collective: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for last in collectives {
        let LastCollective { group, name, state, .. } = last;
        let number = last.sequence.map(|sequence| format!(" {sequence}")).unwrap_or_default();
        let what = format!("`{name}`{number} of group {group} ({state})");
        by_collective.entry(what).or_default().push(last.rank);
    }
    let mut parts: Vec<(Vec<u32>, String)> =
        by_collective.into_iter().map(|(what, ranks)| (ranks, what)).collect();
    parts.sort();
    let parts = parts.iter().map(|(members, what)| {
        let verb = if members.len() == 1 { "is" } else { "are" };
        format!("{} {verb} at {what}", rank_list(members))
    });
    (!collectives.is_empty()).then(|| parts.collect::<Vec<_>>().join(", "))
}

fn rank_list(ranks: &[u32]) -> String {
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", number_list(ranks))
}

/// Lists numbers, in ascending order, with ranges: `0-2, 4`.
pub fn number_list(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_ranges() {
        assert_eq!(number_list(&[0, 1, 2, 4, 6, 7]), "0-2, 4, 6-7");
        assert_eq!(number_list(&[]), "");
    }

    #[test]
    fn zombies_have_their_hosts() {
        let ended = |host: Option<&str>, pid| EndedProcess { host: host.map(str::to_owned), pid };
        assert_eq!(zombie_list(&[ended(None, 7)]), "7");
        let many = [ended(Some("node2"), 20), ended(None, 13), ended(None, 12)];
        assert_eq!(zombie_list(&many), "12-13, 20 on node2");
    }

    #[test]
    fn times_have_the_two_largest_units() {
        for (secs, text) in [(3.9, "3 s"), (71.0, "1 min 11 s"), (7_260.0, "2 h 1 min")] {
            assert_eq!(idle_clause(secs), format!(" for at least {text}"));
        }
    }
}
