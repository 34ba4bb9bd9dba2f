#include "algorithms/edge_kernels.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 of its own intrinsics (bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include "models/lanes.h"

// As in lattice_sampler_kernels.cc: an attribute per function.
#define TACIT_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512vl")))

namespace tacit::internal {

// The same operations in each coordinate.
TACIT_AVX512 void AddEdges8(double rho, std::span<const EdgeEnd> edges, bool begin, std::size_t d,
                            const double* own, double* w, double* pull) {
  const __m512d r = _mm512_set1_pd(rho);
  std::size_t j = 0;
  for (; j + 8 <= d; j += 8) {
    const __m512d w_k = _mm512_loadu_pd(own + j);
    __m512d sum = begin ? _mm512_setzero_pd() : _mm512_loadu_pd(pull + j);
    for (const EdgeEnd& e : edges) {
      const __m512d w_l = _mm512_loadu_pd(e.other + j);
      const __m512d multiplier = _mm512_add_pd(
          _mm512_loadu_pd(e.lambda + j), _mm512_mul_pd(_mm512_set1_pd(e.step), _mm512_sub_pd(w_k, w_l)));
      _mm512_storeu_pd(e.lambda + j, multiplier);
      sum = _mm512_add_pd(sum, _mm512_sub_pd(_mm512_mul_pd(r, _mm512_add_pd(w_k, w_l)), multiplier));
    }
    _mm512_storeu_pd(w + j, w_k);
    _mm512_storeu_pd(pull + j, sum);
  }
  if (j < d) {
    const auto here = static_cast<__mmask8>((1u << (d - j)) - 1);
    const __m512d w_k = _mm512_maskz_loadu_pd(here, own + j);
    __m512d sum = begin ? _mm512_setzero_pd() : _mm512_maskz_loadu_pd(here, pull + j);
    for (const EdgeEnd& e : edges) {
      const __m512d w_l = _mm512_maskz_loadu_pd(here, e.other + j);
      const __m512d multiplier =
          _mm512_add_pd(_mm512_maskz_loadu_pd(here, e.lambda + j),
                        _mm512_mul_pd(_mm512_set1_pd(e.step), _mm512_sub_pd(w_k, w_l)));
      _mm512_mask_storeu_pd(e.lambda + j, here, multiplier);
      sum = _mm512_add_pd(sum, _mm512_sub_pd(_mm512_mul_pd(r, _mm512_add_pd(w_k, w_l)), multiplier));
    }
    _mm512_mask_storeu_pd(w + j, here, w_k);
    _mm512_mask_storeu_pd(pull + j, here, sum);
  }
  _mm256_zeroupper();
}

void AddEdges4(double rho, std::span<const EdgeEnd> edges, bool begin, std::size_t d, const double* own,
               double* w, double* pull) {
  const auto add = [rho](double step, auto w_k, auto w_l, auto& multiplier, auto& sum) {
    multiplier += step * (w_k - w_l);
    sum += rho * (w_k + w_l) - multiplier;
  };
  std::size_t j = 0;
  for (; j + kLanes <= d; j += kLanes) {
    const Lanes w_k = Load(own + j);
    Lanes sum = begin ? Lanes{} : Load(pull + j);
    for (const EdgeEnd& e : edges) {
      Lanes multiplier = Load(e.lambda + j);
      add(e.step, w_k, Load(e.other + j), multiplier, sum);
      Store(e.lambda + j, multiplier);
    }
    Store(w + j, w_k);
    Store(pull + j, sum);
  }
  for (; j < d; ++j) {
    const double w_k = own[j];
    double sum = begin ? 0.0 : pull[j];
    for (const EdgeEnd& e : edges) add(e.step, w_k, e.other[j], e.lambda[j], sum);
    w[j] = w_k;
    pull[j] = sum;
  }
}

}  // namespace tacit::internal
