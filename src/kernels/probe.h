// What the machine can do at best, for benches that print shares of it. Each call is the work of one thread.
#pragma once

#include <cstdint>

namespace seekline {

/// Reads [data, data + bytes) once, in a few streams. The result depends on every byte, so that nothing is
/// skipped.
std::uint64_t probe_read(const std::uint8_t* data, std::int64_t bytes);

/// Multiplies and adds in registers alone, `rounds` times 24 vectors. Returns the operations done (a product
/// and a sum are two); 0 where this CPU lacks the instructions.
double probe_bf16_dots(std::int64_t rounds);
double probe_int8_dots(std::int64_t rounds);

}  // namespace seekline
