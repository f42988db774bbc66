//! Modules and their functions, whose code is never executed.

#![expect(unsafe_code, reason = "functions of the C interface")]

use crate::api::{self, CallArguments};
use crate::callback::{ModuleData, notify_described, resource};
use crate::context;
use crate::ffi::{Address, Handle, INVALID_VALUE, Out, Text, exports};
use crate::name::Name;
use crate::operation::Kernel;
use crate::script::DEFAULT_DURATION_NANOS;
use crate::settings;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT_MODULE: AtomicU32 = AtomicU32::new(1);

pub(super) struct Module {
    id: u32,
    code: usize,
}

/// A kernel of a module, with the properties in the script, or defaults.
pub(super) struct Function {
    pub kernel: Kernel,
    pub duration_nanos: u64,
    module: Handle<Module>,
}

impl Function {
    fn with_name(name: &str, module: Handle<Module>) -> Self {
        let script = settings::script();
        let scripted = script.settings.kernels.iter().find(|(kernel, _, _)| kernel == name);
        let (kernel, duration_nanos) = scripted.map_or_else(
            || (Kernel::with_name(Name::copied(name)), DEFAULT_DURATION_NANOS),
            |(_, kernel, duration_nanos)| (*kernel, *duration_nanos),
        );
        Self { kernel, duration_nanos, module }
    }
}

fn load(module: &Out<Handle<Module>>, code: usize) -> i32 {
    let context = Handle::to(context::current_or_first());
    api::call(&api::LOAD_MODULE, CallArguments::context(context), |_| {
        let id = NEXT_MODULE.fetch_add(1, Ordering::Relaxed);
        let loaded = Handle::new(Module { id, code });
        // The length of the code is only contained in its own header.
        notify_described(resource::MODULE_LOADED, context, &ModuleData { id, size: 0, code });
        module.set(loaded)
    })
}

exports! {
    fn cuModuleLoadData(module: Out<Handle<Module>>, image: Address) {
        load(&module, image as usize)
    }

    fn cuModuleLoadDataEx(
        module: Out<Handle<Module>>,
        image: Address,
        _count: u32,
        _options: Address,
        _values: Address,
    ) {
        load(&module, image as usize)
    }

    fn cuModuleUnload(module: Handle<Module>) {
        let Some(module) = module.get() else { return INVALID_VALUE };
        let context = Handle::to(context::current_or_first());
        let data = ModuleData { id: module.id, size: 0, code: module.code };
        notify_described(resource::MODULE_UNLOAD_STARTING, context, &data);
        0
    }

    fn cuModuleGetFunction(function: Out<Handle<Function>>, module: Handle<Module>, name: Text) {
        function.set(Handle::new(Function::with_name(name.get(), module)))
    }

    fn cuFuncGetAttribute(value: Out<i32>, attribute: u32, function: Handle<Function>) {
        let Some(Function { kernel, .. }) = function.get() else { return INVALID_VALUE };
        value.set(match attribute {
            0 => 1_024,
            1 => kernel.static_shared_bytes,
            3 => kernel.local_bytes.cast_signed(),
            4 => kernel.registers.into(),
            5 | 6 => 90,
            8 => 49_152,
            _ => 0,
        })
    }

    fn cuFuncGetModule(module: Out<Handle<Module>>, function: Handle<Function>) {
        function.get().map_or(INVALID_VALUE, |function| module.set(function.module))
    }

    fn cuFuncGetName(name: Out<*const c_char>, function: Handle<Function>) {
        let Some(function) = function.get() else { return INVALID_VALUE };
        name.set(function.kernel.name.address() as *const c_char)
    }
}
