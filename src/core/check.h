#pragma once

// TACIT_CHECK: a programmer's error (size mismatch, broken invariant). Always on; aborts with
// file and line, and never prints a value, because a value may be private.
#include <cstdio>
#include <cstdlib>

#define TACIT_CHECK(condition)                                                               \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
