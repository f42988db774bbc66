//! The selection of the CUDA interfaces whose calls are recorded.

use super::abi::constants::{domain, kind};
use marey_model::env;
use marey_record::{device, environment};

/// A selection of interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CudaInterfaces {
    /// The driver API, such as `cuLaunchKernel`.
    pub has_driver: bool,
    /// The runtime API, such as `cudaLaunchKernel`.
    pub has_runtime: bool,
}

impl CudaInterfaces {
    /// Returns the interfaces in `MAREY_CUDA_API`. Unknown words are noted in the profile.
    pub fn from_env() -> Self {
        let text = environment::text(env::CUDA_API).unwrap_or_default();
        let (interfaces, unknown_words) = Self::parse(&text);
        if !unknown_words.is_empty() {
            let words = unknown_words.join(", ");
            device::note(
                "cuda_api",
                format!(
                    "{} contains {words}; the interfaces are `driver` and `runtime`",
                    env::CUDA_API
                ),
            );
        }
        interfaces
    }

    /// Parses a list of interfaces. Also returns the unknown words.
    pub fn parse(text: &str) -> (Self, Vec<&str>) {
        let (mut interfaces, mut unknown_words) = (Self::default(), Vec::new());
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            match word.to_ascii_lowercase().as_str() {
                "driver" => interfaces.has_driver = true,
                "runtime" => interfaces.has_runtime = true,
                _ => unknown_words.push(word),
            }
        }
        (interfaces, unknown_words)
    }

    /// Whether any interface is selected.
    pub const fn has_any(self) -> bool {
        self.has_driver || self.has_runtime
    }

    /// Returns the callback domains and activity kinds of the interfaces.
    pub(super) fn domains_and_kinds(self) -> impl Iterator<Item = (u32, u32)> {
        let driver = self.has_driver.then_some((domain::DRIVER_API, kind::DRIVER));
        driver.into_iter().chain(self.has_runtime.then_some((domain::RUNTIME_API, kind::RUNTIME)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_words_are_selected_and_unknown_ones_returned() {
        let both = CudaInterfaces { has_driver: true, has_runtime: true };
        assert_eq!(CudaInterfaces::parse("driver,runtime"), (both, vec![]));
        assert_eq!(CudaInterfaces::parse(" Runtime, driver "), (both, vec![]));
        let runtime = CudaInterfaces { has_runtime: true, ..CudaInterfaces::default() };
        assert_eq!(CudaInterfaces::parse("runtime,cublas"), (runtime, vec!["cublas"]));
        assert!(!CudaInterfaces::parse("").0.has_any());
    }
}
