// EXPECT: conversion from 'double' to non-scalar type 'const tacit::L2Bound'|no viable conversion from 'double' to 'const tacit::L2Bound'
// The same in an initialisation.
#include "core/units.h"

double Use() {
#if MUST_FAIL
  const tacit::L2Bound bound = 1.0;
#else
  const tacit::L2Bound bound{1.0};
#endif
  return bound.value();
}
