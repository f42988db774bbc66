//! Reduces the name of a kernel or operator to that of its function, without the parts that vary
//! between instances. The suggestion of renames compares these names.

/// Returns the name of an operator, or of a kernel's function. It lacks the return type, template
/// arguments, parameters, the overload (`aten::sum.dim_IntList`) and numeric suffixes. A mangled
/// name is demangled up to its template arguments. If nothing would remain, the name is returned
/// unchanged.
pub(super) fn function_name(name: &str) -> String {
    let demangled = demangle(name).unwrap_or_else(|| name.replace("(anonymous namespace)::", ""));
    let name_end = demangled.find(['<', '(']).unwrap_or(demangled.len());
    let qualified_name = demangled[..name_end].trim_end();
    let qualified_name = match qualified_name.rsplit_once(' ') {
        Some((_, last)) if name_end < demangled.len() || qualified_name.starts_with("void ") => {
            last
        }
        _ => qualified_name,
    };
    let mut stem = without_overload(qualified_name);
    while let Some((shorter, number)) = stem.rsplit_once('_')
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        stem = shorter;
    }
    let stem = stem.trim_end_matches('_');
    if stem.is_empty() { name.to_owned() } else { stem.to_owned() }
}

/// Returns the name of an operator without its overload. Since version 2.7, PyTorch has the
/// overload in names, but torch.profiler leaves it out. Other names are returned unchanged.
fn without_overload(name: &str) -> &str {
    let is_word =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match name.rsplit_once('.') {
        Some((operator, overload)) if is_word(overload) => match operator.split_once("::") {
            Some((namespace, function)) if is_word(namespace) && is_word(function) => operator,
            _ => name,
        },
        _ => name,
    }
}

/// Returns the components of a mangled name up to its template arguments, for example `at::native`
/// for `_ZN2at6nativeI…`.
fn demangle(name: &str) -> Option<String> {
    let mut remaining = name.strip_prefix("_Z")?;
    remaining = remaining.strip_prefix('N').unwrap_or(remaining);
    let mut names: Vec<&str> = Vec::new();
    while remaining.starts_with(|first: char| first.is_ascii_digit()) {
        let digit_count = remaining.bytes().take_while(u8::is_ascii_digit).count();
        let (byte_count, after_digits) = remaining.split_at(digit_count);
        let byte_count = byte_count.parse().ok()?;
        let part = after_digits.get(..byte_count)?;
        // An anonymous namespace has this name, and is left out.
        if !part.starts_with("_GLOBAL__N_") {
            names.push(part);
        }
        remaining = &after_digits[byte_count..];
    }
    (!names.is_empty()).then(|| names.join("::"))
}

#[cfg(test)]
mod tests {
    use super::function_name;

    #[test]
    fn template_arguments_and_numeric_suffixes_are_removed() {
        for (name, expected) in [
            (
                "void at::native::reduce_kernel<512, 1, at::X<float> >(at::X<float>)",
                "at::native::reduce_kernel",
            ),
            ("void (anonymous namespace)::softmax<float>(int)", "softmax"),
            ("void at::native::(anonymous namespace)::cat<4>", "at::native::cat"),
            ("void copy", "copy"),
            ("int add(int)", "add"),
            ("_ZN2at6native13reduce_kernelILi512ELi1EEEvT_", "at::native::reduce_kernel"),
            ("_ZN12_GLOBAL__N_17softmaxIfEEvi", "softmax"),
            ("_Z6vecAddPfS_", "vecAdd"),
            ("_Z", "_Z"),
            ("_Z9", "_Z9"),
            ("_Z99999999999999999999999x", "_Z99999999999999999999999x"),
            ("triton_poi_fused_add_relu_12", "triton_poi_fused_add_relu"),
            ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
            ("aten::sum.dim_IntList", "aten::sum"),
            ("aten::mm", "aten::mm"),
            ("aten::f.x-y", "aten::f.x-y"),
            ("torch.nn::Linear.forward", "torch.nn::Linear.forward"),
            ("model.layer", "model.layer"),
            ("forward pass", "forward pass"),
            ("<built-in method>", "<built-in method>"),
            ("_0_1", "_0_1"),
            ("", ""),
        ] {
            assert_eq!(function_name(name), expected);
        }
    }
}
