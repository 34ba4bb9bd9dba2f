// EXPECT: is private within this context|is a private member
// A checkpoint holds private state: nothing but the checkpoint itself opens it.
#include "experiment/checkpoint.h"

void Use() {
#if MUST_FAIL
  tacit::Checkpoint::Reader reader;
  static_cast<void>(reader.rest);
#endif
}
