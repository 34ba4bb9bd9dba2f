// EXPECT: Resumable|constraints? not satisfied
// State that a checkpoint cannot hold would be forgotten by a resumed run.
#include <tuple>

#include "algorithms/algorithm.h"

struct Client {
#if MUST_FAIL
  double* x = nullptr;
#else
  tacit::Private<tacit::Vec> x;
#endif
  auto State() { return std::tie(x); }
};

template <tacit::Resumable T> void Keep(T&) {}
void Use(Client& c) { Keep(c); }
