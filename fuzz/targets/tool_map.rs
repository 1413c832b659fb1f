#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| composure_fuzz::targets::tool_map(data));
