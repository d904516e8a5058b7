// Assertions on our own logic. They abort with a message; never use them on anything from outside.
#pragma once

namespace seekline {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const char* why);

}  // namespace seekline

#define SEEKLINE_CHECK(condition, why)                                               \
  do {                                                                               \
    if (!(condition)) ::seekline::check_failed(__FILE__, __LINE__, #condition, why); \
  } while (false)
