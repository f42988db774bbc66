//! Values of a running program, read from outside.
//!
//! An [`Inspector`] finds the object of an [`Expression`] and reads it to a bounded depth. Only what is
//! stored is read: variables, attributes in dictionaries and slots, and items of built-in containers.
//! Nothing that would run code of the program is possible: no calls, operators, properties or
//! methods such as `__getattr__` and `__getitem__`.
//!
//! **Constraints.** The process runs meanwhile, so that everything that is read may be torn: each
//! class is checked to be one, each length is bounded, and the number of readings too. A value
//! counts as read if its expression has the same object afterwards; otherwise it is read again.

mod attribute;
mod error;
mod expression;
mod path;
mod scope;
#[cfg(test)]
mod tests;
mod text;
mod value;

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

pub use self::error::InspectError;
pub use self::expression::{Expression, ExpressionError, PathStep};
pub use self::scope::Scope;
pub use self::value::{Content, Value, ValueLimits};
use crate::memory::ProcessMemory;
use crate::object::{ObjectLayout, Objects};
use crate::{AttachError, ReadOptions, Target, process};

/// Attempts to read a value that changes.
const MAX_ATTEMPTS: u32 = 50;

/// Time for which a frame or its variable is looked for that is not there. A function that a program
/// calls again and again is on its stack only now and then, and a stack that changes while it is read
/// may lack the outer frames.
const MAX_FRAME_WAIT: Duration = Duration::from_secs(1);

/// Pause between two looks for a frame.
const FRAME_PAUSE: Duration = Duration::from_millis(1);

/// Readings of memory of one inspection, about as many seconds as millions.
const MAX_READS: usize = 4_000_000;

type Result<T> = std::result::Result<T, InspectError>;

/// A process whose values can be read.
pub struct Inspector {
    target: Target,
    memory: ProcessMemory,
    layout: ObjectLayout,
}

/// A value at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inspected {
    /// Process id in the operating system.
    pub pid: u32,
    /// Version of CPython, such as `3.11.7`.
    pub python: String,
    /// The expression.
    pub expression: String,
    /// The value of the expression.
    #[serde(flatten)]
    pub value: Value,
    /// Attributes that the value itself stores, as name and value, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<(String, Value)>>,
}

impl Inspector {
    /// Finds the interpreter of a process.
    pub fn open(pid: u32) -> Result<Self> {
        let target =
            Target::open(pid, ReadOptions { reads_locals: true, ..ReadOptions::default() })?;
        let memory = ProcessMemory::open(pid).ok_or(AttachError::Forbidden(pid))?;
        let layout = target.layout(&memory)?;
        Ok(Self { target, memory, layout })
    }

    /// Reads the value of an expression, again if it changed while it was read. Waits a second for a
    /// frame that is not there.
    pub fn read(
        &mut self,
        expression: &Expression,
        scope: &Scope,
        limits: ValueLimits,
        with_attributes: bool,
    ) -> Result<Inspected> {
        let objects = Objects::new(&self.memory, &self.layout, MAX_READS);
        let pid = self.target.pid();
        let start = Instant::now();
        let mut attempts = 0;
        while attempts < MAX_ATTEMPTS {
            objects.forget_classes();
            let target = &mut self.target;
            match read_once(target, &objects, expression, scope, limits, with_attributes) {
                Err(InspectError::Changed) if process::is_alive(pid) => attempts += 1,
                Err(InspectError::Changed) => return Err(AttachError::NoProcess(pid).into()),
                Err(error)
                    if scope.may_appear(&error)
                        && start.elapsed() < MAX_FRAME_WAIT
                        && process::is_alive(pid) =>
                {
                    thread::park_timeout(FRAME_PAUSE);
                }
                Err(error) => return Err(error),
                Ok((value, attributes)) => {
                    let python = self.target.python_version();
                    let expression = expression.to_string();
                    return Ok(Inspected { pid, python, expression, value, attributes });
                }
            }
        }
        Err(InspectError::Changed)
    }
}

type Attributes = Vec<(String, Value)>;

fn read_once(
    target: &mut Target,
    objects: &Objects<'_>,
    expression: &Expression,
    scope: &Scope,
    limits: ValueLimits,
    with_attributes: bool,
) -> Result<(Value, Option<Attributes>)> {
    let object = find_object(target, objects, expression, scope)?;
    let value = objects.value(object, limits)?;
    let attributes =
        with_attributes.then(|| objects.attribute_values(object, limits)).transpose()?;
    if find_object(target, objects, expression, scope)? == object {
        Ok((value, attributes))
    } else {
        Err(InspectError::Changed)
    }
}

/// Returns the address of the object of an expression.
fn find_object(
    target: &mut Target,
    objects: &Objects<'_>,
    expression: &Expression,
    scope: &Scope,
) -> Result<u64> {
    let root = scope.root(target, objects, expression)?;
    objects.follow(root.object, expression, root.module_steps)
}
