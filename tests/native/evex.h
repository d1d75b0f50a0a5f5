// Included first where sources of avxvnni are compiled for AVX-512: their intrinsics by the other name.
#pragma once

#include <immintrin.h>

#define _mm_dpbusd_avx_epi32(sum, a, b) _mm_dpbusd_epi32(sum, a, b)
#define _mm256_dpbusd_avx_epi32(sum, a, b) _mm256_dpbusd_epi32(sum, a, b)
#define _mm256_dpwssd_avx_epi32(sum, a, b) _mm256_dpwssd_epi32(sum, a, b)
