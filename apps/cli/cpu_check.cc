// Runs before any other code of the program and refuses, in a sentence, a processor that would
// otherwise die of an illegal instruction somewhere in the middle. This file alone is built for the
// oldest x86-64, and uses nothing that could have been built for a newer one.
#include <unistd.h>

#if defined(__x86_64__)
namespace {

constexpr char kSentence[] =
    "tacit: this processor lacks the x86-64-v3 instructions (AVX2, FMA, BMI2; any since about 2015) that "
    "this "
    "build uses; run it on a newer machine, or build with: cmake --preset release -DTACIT_MARCH=x86-64\n";

constexpr int kUnsupported = 7;  // Code::kUnsupported

// 101 is the first priority a program may use: static initialisers of all other files come later.
[[gnu::constructor(101)]] void RefuseOldProcessors() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v3")) return;
  const auto written = write(STDERR_FILENO, kSentence, sizeof(kSentence) - 1);
  static_cast<void>(written);
  _exit(kUnsupported);
}

}  // namespace
#endif
