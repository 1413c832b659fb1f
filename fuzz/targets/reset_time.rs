#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| composure_fuzz::targets::reset_time(data));
