#pragma once

#include <cstdint>
#include <tuple>

#include "wire/message.h"

namespace tacit {

// What became of the clients that were asked. Counts alone: who it was is nobody's business.
struct Answers {
  std::uint64_t taken = 0, absent = 0, wrong_length = 0, not_finite = 0;
  void Count(Fault f) {
    switch (f) {
      case Fault::kNone: ++taken; return;
      case Fault::kAbsent: ++absent; return;
      case Fault::kLength: ++wrong_length; return;
      case Fault::kNotFinite: ++not_finite; return;
    }
  }
  auto All() { return std::tie(taken, absent, wrong_length, not_finite); }
  void Add(const Answers& other) {
    taken += other.taken, absent += other.absent;
    wrong_length += other.wrong_length, not_finite += other.not_finite;
  }
};

}  // namespace tacit
