//! The place where the first name of an expression is looked up.

use py_spy::{Frame, StackTrace};

use super::attribute::MAX_CANDIDATE_NAMES;
use super::expression::{Expression, PathStep};
use super::{InspectError, Result};
use crate::Target;
use crate::object::{ClassFlag, Objects};

/// In a cell, which holds a variable that functions share: the address of the value.
const CELL_VALUE_OFFSET: u64 = 16;

/// The place of the first name: the variables of a frame, or else those of `__main__`.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Thread of the frame, by its id in the operating system.
    pub thread: Option<u64>,
    /// Number of the frame, 0 for the innermost one.
    pub frame: Option<usize>,
    /// Function of the frame: its innermost call.
    pub function: Option<String>,
}

/// The object of the first names of an expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub(super) object: u64,
    /// Steps that belong to the name of a module.
    pub(super) module_steps: usize,
}

impl Scope {
    const fn selects_frame(&self) -> bool {
        self.thread.is_some() || self.frame.is_some() || self.function.is_some()
    }

    /// Whether what an error says to be missing may be there at the next look.
    pub(super) const fn may_appear(&self, error: &InspectError) -> bool {
        match error {
            InspectError::NoFunction { .. }
            | InspectError::NoFrame { .. }
            | InspectError::NoThread(_) => true,
            InspectError::NoName { .. } => self.selects_frame(),
            _ => false,
        }
    }

    /// Finds the object of the first name.
    pub(super) fn root(
        &self,
        target: &mut Target,
        objects: &Objects<'_>,
        expression: &Expression,
    ) -> Result<Root> {
        let modules = objects.word(target.modules_address(), 0)?;
        if !self.selects_frame() {
            return objects.find_global(
                modules,
                "__main__",
                expression,
                Vec::new(),
                "global variable",
            );
        }
        let Ok(stacks) = target.stacks() else { return Err(InspectError::Changed) };
        let frame = self.find_frame(target, &stacks)?;
        let locals = frame.locals.as_deref().unwrap_or_default();
        if let Some(local) = locals.iter().find(|local| local.name == expression.name()) {
            let object = objects.local_value(local.addr as u64)?;
            return Ok(Root { object, module_steps: 0 });
        }
        let module = objects.module_of_file(modules, &frame.filename)?.unwrap_or_default();
        let names = locals.iter().map(|local| local.name.clone()).collect();
        let place = "local or global variable";
        objects.find_global(modules, &module, expression, names, place)
    }

    fn find_frame<'a>(&self, target: &Target, stacks: &'a [StackTrace]) -> Result<&'a Frame> {
        let thread = match (self.thread, &self.function) {
            (Some(thread), _) => Some(thread),
            (None, None) => Some(target.pid().into()),
            (None, Some(_)) => None,
        };
        let is_selected = |stack: &&StackTrace| thread.is_none() || target.os_id(stack) == thread;
        let selected: Vec<_> = stacks.iter().filter(is_selected).collect();
        let Some(first) = selected.first() else {
            return Err(InspectError::NoThread(thread.unwrap_or_default()));
        };
        let Some(function) = &self.function else {
            let frame = self.frame.unwrap_or(0);
            let frames = first.frames.len();
            return first.frames.get(frame).ok_or(InspectError::NoFrame { frame, frames });
        };
        let is_in_function = |frame: &&Frame| is_function(&frame.name, function);
        let matching: Vec<_> = selected
            .iter()
            .filter_map(|stack| Some((*stack, stack.frames.iter().find(is_in_function)?)))
            .collect();
        match matching.as_slice() {
            [(_, frame)] => Ok(frame),
            [] => {
                let frames = selected.iter().flat_map(|stack| &stack.frames);
                let names = frames.map(|frame| frame.name.clone()).collect();
                Err(InspectError::NoFunction { name: function.clone(), names })
            }
            several => {
                let threads = several.iter().filter_map(|(stack, _)| target.os_id(stack));
                let threads = threads.collect();
                Err(InspectError::SeveralThreads { name: function.clone(), threads })
            }
        }
    }
}

/// Whether a frame has the name of a function, with or without its class.
fn is_function(frame_name: &str, function: &str) -> bool {
    frame_name == function
        || frame_name.strip_suffix(function).is_some_and(|class| class.ends_with('.'))
}

impl Objects<'_> {
    /// Finds a name among the variables of a module, or a module.
    fn find_global(
        &self,
        modules: u64,
        module: &str,
        expression: &Expression,
        mut names: Vec<String>,
        place: &'static str,
    ) -> Result<Root> {
        let modules = self.dictionary(modules)?;
        if let Some(module) = self.find_text(&modules, module)?
            && let Some(table) = self.attribute_table(module, &self.class_of(module)?)?
        {
            if let Some(object) = self.find_text(&table, expression.name())? {
                return Ok(Root { object, module_steps: 0 });
            }
            names.extend(self.candidate_names(&table)?);
        }
        for (module_steps, name) in module_names(expression).into_iter().enumerate().rev() {
            if let Some(object) = self.find_text(&modules, &name)? {
                return Ok(Root { object, module_steps });
            }
        }
        let loaded_names = self.candidate_names(&modules)?;
        names.extend(loaded_names.into_iter().filter(|name| !name.contains('.')));
        Err(InspectError::NoName { place, name: expression.name().to_owned(), names })
    }

    /// Returns the value of a local variable.
    fn local_value(&self, object: u64) -> Result<u64> {
        let class = self.class_of(object)?;
        if !self.is_c_class(&class, "cell")? {
            return Ok(object);
        }
        match self.word(object, CELL_VALUE_OFFSET)? {
            0 => Err(InspectError::Changed),
            value => Ok(value),
        }
    }

    /// Returns the name of the module that a file has become.
    fn module_of_file(&self, modules: u64, path: &str) -> Result<Option<String>> {
        let length = path.chars().count() as u64;
        for (name, module) in self.named_entries(&self.dictionary(modules)?, MAX_CANDIDATE_NAMES)? {
            let Some(table) = self.attribute_table(module, &self.class_of(module)?)? else {
                continue;
            };
            let Some(file) = self.find_text(&table, "__file__")? else { continue };
            if self.class_of(file)?.has_flag(ClassFlag::Text) && self.is_text(file, path, length)? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

/// Returns the names that a module could have, such as `a`, `a.b` and `a.b.c` for `a.b.c[0]`.
fn module_names(expression: &Expression) -> Vec<String> {
    let mut names = vec![expression.name().to_owned()];
    for step in expression.steps() {
        let PathStep::Attribute(attribute) = step else { break };
        let longer = names.last().map(|name| format!("{name}.{attribute}"));
        names.extend(longer);
    }
    names
}
