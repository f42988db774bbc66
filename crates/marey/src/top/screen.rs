//! The interactive display of `marey top`: draws the rows on a terminal, and obeys keys.

use std::io::{self, Stdout};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TermionBackend;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::termion::event::Key;
use ratatui::termion::input::TermRead;
use ratatui::termion::raw::{IntoRawMode, RawTerminal};
use ratatui::termion::screen::{AlternateScreen, IntoAlternateScreen};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table};

use super::profile::{Grouping, ProfileOrder, SampledProfile};
use super::sampler::BackgroundSampler;
use super::{Load, LoadMeter, TopArgs, TopReport, cells, write_flame_graph};
use crate::output::CommandError;

/// The time between two updates of the screen.
const REFRESH_INTERVAL: Duration = Duration::from_millis(250);
/// The time over which the use of resources is measured.
const LOAD_INTERVAL: Duration = Duration::from_secs(1);
/// The width of a share, such as `100.0 %`.
const SHARE_COLUMNS: u16 = 8;

/// The number of keys that can wait to be handled. The reader waits when there are more.
const MAX_WAITING_KEYS: usize = 64;

/// A terminal without echo, on a screen of its own. Its drop restores the terminal.
type RawScreen = Terminal<TermionBackend<AlternateScreen<RawTerminal<Stdout>>>>;

/// The state of the display: rows, order, search and message.
pub(super) struct Screen<'a> {
    sampler: &'a BackgroundSampler,
    pid: u32,
    python: &'a str,
    flame_graph: &'a Path,
    grouping: Grouping,
    order: ProfileOrder,
    search: String,
    is_typing: bool,
    first_row: usize,
    message: String,
    load_meter: LoadMeter,
    load: Load,
}

/// Whether the screen stays after a key.
#[derive(PartialEq, Eq)]
enum AfterKey {
    Stay,
    Leave,
}

impl<'a> Screen<'a> {
    pub(super) fn new(
        sampler: &'a BackgroundSampler,
        args: &TopArgs,
        python: &'a str,
        flame_graph: &'a Path,
    ) -> Self {
        Self {
            sampler,
            pid: args.pid,
            python,
            flame_graph,
            grouping: args.by,
            order: args.sort,
            search: String::new(),
            is_typing: false,
            first_row: 0,
            message: String::new(),
            load_meter: LoadMeter::begin(args.pid),
            load: Load::default(),
        }
    }

    /// Shows the process until the user leaves or the process ends.
    pub(super) fn run(mut self, interrupt: &Receiver<()>) -> Result<(), CommandError> {
        let screen = io::stdout().into_raw_mode()?.into_alternate_screen()?;
        let mut terminal = Terminal::new(TermionBackend::new(screen))?;
        let keys = read_keys()?;
        loop {
            if self.load_meter.elapsed() >= LOAD_INTERVAL {
                self.load = self.load_meter.load();
            }
            self.draw(&mut terminal)?;
            match keys.recv_timeout(REFRESH_INTERVAL) {
                Ok(key) if self.press(key) == AfterKey::Leave => return Ok(()),
                // The terminal is closed.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt.try_recv().is_ok() {
                return Ok(());
            }
            if !marey_attach::is_alive(self.pid) {
                "the process has ended".clone_into(&mut self.message);
            }
        }
    }

    fn draw(&self, terminal: &mut RawScreen) -> io::Result<()> {
        let profile = self.sampler.profile();
        let rows = profile.rows(self.grouping, self.order, &self.search);
        let report = TopReport::new(self.pid, self.python, self.load.clone(), &profile, Vec::new());
        let [title, facts, machine] = report.heading();
        let table = self.table(&rows, &profile);
        drop(profile);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let dim = Style::new().add_modifier(Modifier::DIM);
        terminal.draw(|frame| {
            let line = Constraint::Length(1);
            let [title_area, facts_area, machine_area, status_area, body_area, keys_area] =
                Layout::vertical([line, line, line, line, Constraint::Min(1), line])
                    .areas(frame.area());
            frame.render_widget(Line::styled(title, bold), title_area);
            frame.render_widget(Line::from(facts), facts_area);
            frame.render_widget(Line::from(machine), machine_area);
            frame.render_widget(Line::from(self.status_line()), status_area);
            frame.render_widget(table, body_area);
            let help = "Tab rows  s order  / search  Space pause  r reset  f flame graph  q quit";
            frame.render_widget(Line::styled(help, dim), keys_area);
        })?;
        Ok(())
    }

    fn table(&self, rows: &[super::ProfileRow], profile: &SampledProfile) -> Table<'static> {
        let shown_rows = rows.iter().skip(self.first_row.min(rows.len().saturating_sub(1)));
        let shown_rows = shown_rows.map(|row| Row::new(cells(row, profile)));
        let widths = [
            Constraint::Length(SHARE_COLUMNS),
            Constraint::Length(SHARE_COLUMNS),
            Constraint::Percentage(40),
            Constraint::Min(1),
        ];
        let heading = Row::new(["own", "total", self.grouping.title(), ""]);
        let heading = heading.style(Style::new().add_modifier(Modifier::BOLD));
        Table::new(shown_rows, widths).header(heading)
    }

    /// Returns the line with the order, the search, the pause and the last message.
    fn status_line(&self) -> String {
        let order = match self.order {
            ProfileOrder::Own => "by own time",
            ProfileOrder::Total => "by total time",
            ProfileOrder::Name => "by name",
        };
        let mut parts = vec![order.to_owned()];
        if self.is_typing || !self.search.is_empty() {
            parts.push(format!("search: {}{}", self.search, if self.is_typing { "_" } else { "" }));
        }
        if self.sampler.is_paused() {
            parts.push("paused".to_owned());
        }
        if !self.message.is_empty() {
            parts.push(self.message.clone());
        }
        parts.join("; ")
    }

    fn press(&mut self, key: Key) -> AfterKey {
        self.message.clear();
        if self.is_typing && key != Key::Ctrl('c') {
            self.type_search(key);
            return AfterKey::Stay;
        }
        match key {
            Key::Char('q') | Key::Esc | Key::Ctrl('c') => return AfterKey::Leave,
            Key::Char(' ') => self.sampler.toggle_pause(),
            Key::Char('s') => self.order = following(&ProfileOrder::ALL, self.order),
            Key::Char('/') => self.is_typing = true,
            Key::Char('r') => *self.sampler.profile() = SampledProfile::default(),
            Key::Char('f') => self.write_flame_graph(),
            Key::Char('\t') => {
                self.grouping = following(&Grouping::ALL, self.grouping);
                self.first_row = 0;
            }
            Key::Down => self.first_row += 1,
            Key::Up => self.first_row = self.first_row.saturating_sub(1),
            _ => {}
        }
        AfterKey::Stay
    }

    fn type_search(&mut self, key: Key) {
        match key {
            Key::Char('\n') => self.is_typing = false,
            Key::Esc => {
                self.is_typing = false;
                self.search.clear();
            }
            Key::Backspace => drop(self.search.pop()),
            Key::Char(letter) => self.search.push(letter),
            _ => {}
        }
        self.first_row = 0;
    }

    fn write_flame_graph(&mut self) {
        let written = write_flame_graph(&self.sampler.profile(), self.flame_graph);
        self.message = match written {
            Ok(()) => format!("wrote {}", self.flame_graph.display()),
            Err(failure) => failure.message,
        };
    }
}

/// Returns the value after `value`, and the first one after the last.
fn following<T: Copy + PartialEq>(all: &[T], value: T) -> T {
    let mut values = all.iter().copied().cycle();
    values.find(|other| *other == value);
    values.next().unwrap_or(value)
}

/// Returns a channel of the pressed keys. A thread reads them until the process ends.
fn read_keys() -> io::Result<Receiver<Key>> {
    let (sender, keys) = mpsc::sync_channel(MAX_WAITING_KEYS);
    let forward_keys = move || {
        for key in io::stdin().keys().map_while(Result::ok) {
            if sender.send(key).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("marey-keys".into()).spawn(forward_keys)?;
    Ok(keys)
}
