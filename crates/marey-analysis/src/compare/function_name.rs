//! What a kernel is called without what it was made for.

/// The name of the function: without the type that it returns, its template's arguments, its parameters
/// and the numbers at its end. A mangled name is taken apart as far as that takes. Where nothing would be
/// left, the name as it is.
pub(super) fn function_name(name: &str) -> String {
    let plain = unmangled(name).unwrap_or_else(|| name.replace("(anonymous namespace)::", ""));
    let end = plain.find(['<', '(']).unwrap_or(plain.len());
    let head = plain[..end].trim_end();
    let head = match head.rsplit_once(' ') {
        Some((_, last)) if end < plain.len() || head.starts_with("void ") => last,
        _ => head,
    };
    let mut rest = head;
    while let Some((shorter, number)) = rest.rsplit_once('_')
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        rest = shorter;
    }
    let rest = rest.trim_end_matches('_');
    if rest.is_empty() { name.to_owned() } else { rest.to_owned() }
}

/// The names of a mangled name, up to the template's arguments: `_ZN2at6nativeI…` is `at::native`.
fn unmangled(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("_Z")?;
    rest = rest.strip_prefix('N').unwrap_or(rest);
    let mut names: Vec<&str> = Vec::new();
    while rest.starts_with(|first: char| first.is_ascii_digit()) {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (count, after) = rest.split_at(digits);
        let count = count.parse().ok()?;
        let part = after.get(..count)?;
        // That of names that only one file knows.
        if !part.starts_with("_GLOBAL__N_") {
            names.push(part);
        }
        rest = &after[count..];
    }
    (!names.is_empty()).then(|| names.join("::"))
}

#[cfg(test)]
mod tests {
    use super::function_name;

    #[test]
    fn arguments_and_numbers_are_left_out() {
        for (name, expected) in [
            (
                "void at::native::reduce_kernel<512, 1, at::X<float> >(at::X<float>)",
                "at::native::reduce_kernel",
            ),
            ("void (anonymous namespace)::softmax<float>(int)", "softmax"),
            ("void at::native::(anonymous namespace)::cat<4>", "at::native::cat"),
            ("_ZN2at6native13reduce_kernelILi512ELi1EEEvT_", "at::native::reduce_kernel"),
            ("_ZN12_GLOBAL__N_17softmaxIfEEvi", "softmax"),
            ("_Z6vecAddPfS_", "vecAdd"),
            ("_Z", "_Z"),
            ("_Z9", "_Z9"),
            ("_Z99999999999999999999999x", "_Z99999999999999999999999x"),
            ("triton_poi_fused_add_relu_12", "triton_poi_fused_add_relu"),
            ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
            ("forward pass", "forward pass"),
            ("<built-in method>", "<built-in method>"),
            ("_0_1", "_0_1"),
            ("", ""),
        ] {
            assert_eq!(function_name(name), expected);
        }
    }
}
