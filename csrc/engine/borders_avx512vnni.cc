// Quantize, sixteen floats at a time.
#include <immintrin.h>

#include "kernels.h"
#include "quantize_box.h"

namespace calib8::engine {
namespace {

// float32 → stored codes. The quotient is a true division: a product with 1 / scale rounds differently.
template <bool away>
struct Quantizer {
  static constexpr int64_t size = 4;
  __m512 scale, least_code, most_code;  // codes minus their zero point
  __m512i zero_point;                   // of stored codes

  explicit Quantizer(const Quantize& step)
      : scale(_mm512_set1_ps(static_cast<float>(step.scale))),
        least_code(_mm512_set1_ps(static_cast<float>(step.low - step.zero_point))),
        most_code(_mm512_set1_ps(static_cast<float>(step.high - step.zero_point))),
        zero_point(_mm512_set1_epi32(static_cast<int>(step.zero_point + step.shift))) {}

  __m512i steps(__m512 value) const {
    const __m512 ratio = _mm512_div_ps(value, scale);
    const __m512 code = _mm512_min_ps(_mm512_max_ps(ratio, least_code), most_code);  // NaN: least_code
    if constexpr (!away) return _mm512_cvtps_epi32(code);
    const __m512 whole = _mm512_roundscale_ps(code, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m512 rest = _mm512_abs_ps(_mm512_sub_ps(code, whole));
    const __mmask16 up = _mm512_cmp_ps_mask(rest, _mm512_set1_ps(0.5F), _CMP_GE_OQ);
    const __m512 sign = _mm512_and_ps(code, _mm512_set1_ps(-0.0F));
    const __m512 one = _mm512_or_ps(sign, _mm512_set1_ps(1.0F));
    return _mm512_cvttps_epi32(_mm512_mask_add_ps(whole, up, whole, one));
  }
  __m128i codes(__m512 values) const {
    return _mm512_cvtepi32_epi8(_mm512_add_epi32(steps(values), zero_point));
  }
  __m128i full(const uint8_t* place) const { return codes(_mm512_loadu_ps(place)); }
  __m256i wide(const uint8_t* place) const {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(full(place)), full(place + 64), 1);
  }
  __m128i part(const uint8_t* place, int64_t n) const {
    return codes(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << n) - 1), place));
  }
};

void quantize(const Quantize& step, const Memory& memory, Part part) {
  const Box box = share_of(whole_box(step, memory), part);
  if (step.away != 0) {
    quantize_box(Quantizer<true>(step), box);
  } else {
    quantize_box(Quantizer<false>(step), box);
  }
}

}  // namespace

void fill_borders_avx512vnni(KernelTable& table) { set_kernel<Quantize, quantize>(table); }

}  // namespace calib8::engine
