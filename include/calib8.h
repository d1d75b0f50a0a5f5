/* libcalib8: runs plans that `calib8 compile` wrote, with the bits of calib8.InferenceSession.
 *
 *   calib8_model*  model;
 *   calib8_error   error;
 *   calib8_options options = CALIB8_OPTIONS;
 *   if (calib8_open_file("net.c8", &options, &model, &error) != CALIB8_OK) { puts(error.text); return 1; }
 *   calib8_in  in  = {pixels, pixel_bytes};
 *   calib8_out out = {logits, logit_bytes};
 *   calib8_run(model, &in, 1, &out, 1, &error);
 *   calib8_close(model);
 *
 * Errors: every function that can fail returns a calib8_code and, where `error` is not NULL, writes the code
 * and one sentence there. No exception of C++ leaves the library, and none is thrown through a caller.
 *
 * Threads: a model does not change once it is open: any number of threads may run it, ask it and make streams
 * of it at once. A stream serves one thread at a time. Nobody may use what is being closed.
 *
 * Forks: a child of a fork may go on with models that were open; it starts threads of its own.
 *
 * State: there is none outside of models and streams, but for what never changes in a process: what the
 * processor has (less what the environment variable CALIB8_CPU takes away), and how often it forked.
 *
 * ABI: functions, codes and the members of structs keep their meaning and their places for one
 * CALIB8_ABI_VERSION; functions, codes, and members at the end of calib8_tensor and calib8_options may be
 * added. The name of the shared library ends in that number.
 */
#ifndef CALIB8_H
#define CALIB8_H

#include <stddef.h>
#include <stdint.h>

#define CALIB8_ABI_VERSION 1

#if defined(CALIB8_STATIC)
#define CALIB8_API
#elif defined(_WIN32) && defined(CALIB8_BUILDS)
#define CALIB8_API __declspec(dllexport)
#elif defined(_WIN32)
#define CALIB8_API __declspec(dllimport)
#else
#define CALIB8_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t calib8_code;
enum {
  CALIB8_OK = 0,
  CALIB8_BAD_ARGUMENT = 1,  /* NULL, an option out of range, another number of arrays */
  CALIB8_NO_FILE = 2,       /* there is no such file, or it cannot be read */
  CALIB8_NOT_A_PLAN = 3,    /* it begins like no plan */
  CALIB8_NEWER_PLAN = 4,    /* a plan in a format that this library does not know yet */
  CALIB8_BROKEN_PLAN = 5,   /* truncated, damaged, or it contradicts itself */
  CALIB8_FLOAT_PARTS = 6,   /* nodes were left to ONNX Runtime, which this library does without */
  CALIB8_NO_ISA = 7,        /* an instruction set that is unknown, or not on this processor */
  CALIB8_WRONG_ARRAY = 8,   /* of another size, not aligned, over another array, or with a length of a
                               sequence that is longer than the sequence */
  CALIB8_NO_MEMORY = 9,     /* there is not enough */
  CALIB8_BUSY = 10,         /* the stream is under way in another thread */
  CALIB8_NEEDS_STREAM = 11, /* the model carries a state from run to run: make a stream */
  CALIB8_INTERNAL = 12      /* anything else: a mistake of the library */
};

typedef struct calib8_error {
  calib8_code code;
  char text[508]; /* one sentence in UTF-8, ends with a zero; empty with CALIB8_OK */
} calib8_error;

typedef struct calib8_options {
  size_t size;      /* sizeof(calib8_options) */
  const char* isa;  /* amx, avx512vnni, avxvnni, avx2, neoni8mm, neondot, neon or reference; NULL: what the
                       environment variable CALIB8_ISA names, else the fastest of this machine. All of them
                       give the same bits. */
  int32_t threads;  /* that share the work of a run, 1 … 256; 0: as many as processors may be used */
  int32_t pin;      /* not 0: each thread of the library stays on one processor */
  int32_t in_place; /* of calib8_open_memory, not 0: the bytes are not copied. They must be aligned to 64
                       bytes, stay as they are and outlive the model and its streams. */
  int32_t reserved; /* 0 */
} calib8_options;

/* One thread, the fastest instruction set. */
#define CALIB8_OPTIONS {sizeof(calib8_options), NULL, 1, 0, 0, 0}

typedef int32_t calib8_type;
enum {
  CALIB8_BOOL = 1, /* one byte, 0 or 1 */
  CALIB8_INT8 = 2,
  CALIB8_UINT8 = 3,
  CALIB8_INT16 = 4,
  CALIB8_UINT16 = 5,
  CALIB8_INT32 = 6,
  CALIB8_UINT32 = 7,
  CALIB8_INT64 = 8,
  CALIB8_UINT64 = 9,
  CALIB8_FLOAT16 = 10,
  CALIB8_FLOAT32 = 11,
  CALIB8_FLOAT64 = 12
};

/* An input or output: an array in one piece, the last axis fastest. Of codes,
 * real = scales[c] · (code − zero_point), where c is 0, or the index along the last axis if there are
 * several. */
typedef struct calib8_tensor {
  const char* name; /* in the model, UTF-8 */
  calib8_type type;
  int32_t rank;
  const int64_t* shape; /* rank sizes, each ≥ 1 */
  size_t bytes;         /* of the array */
  const float* scales;  /* scale_count of them; NULL where there is none: plain numbers, or a plan that
                           calib8 wrote before plans had scales */
  size_t scale_count;
  int32_t zero_point;
  int32_t reserved;
} calib8_tensor;

typedef struct calib8_in {
  const void* data; /* aligned to its elements */
  size_t bytes;
} calib8_in;

typedef struct calib8_out {
  void* data; /* aligned to its elements, over no other array of the run */
  size_t bytes;
} calib8_out;

typedef struct calib8_model calib8_model;
typedef struct calib8_stream calib8_stream;

/* Version of the library, such as "0.1.0"; the ABI that it has; the newest format of plans that it reads. */
CALIB8_API const char* calib8_version(void);
CALIB8_API int32_t calib8_abi_version(void);
CALIB8_API int32_t calib8_plan_format(void);

/* A name of an error code, such as "CALIB8_NO_FILE"; of a type, such as "float32". NULL for others. */
CALIB8_API const char* calib8_code_name(calib8_code code);
CALIB8_API const char* calib8_type_name(calib8_type type);

/* Instruction sets that this machine can run, the fastest first; NULL behind the last one, "reference". */
CALIB8_API const char* calib8_available_isa(size_t index);

/* Opens a plan. A file is mapped: it must not be changed in place while the model is open; a new file under
 * the same name does no harm. Of memory the model keeps a copy, unless the options say `in_place`.
 *
 * options: NULL is CALIB8_OPTIONS. *model is NULL after an error. Steps are checked against the sizes of
 * their arrays before anything runs, whoever wrote the plan. Memory for a run is taken when the first one
 * comes. */
CALIB8_API calib8_code calib8_open_file(const char* path, const calib8_options* options, calib8_model** model,
                                        calib8_error* error);
CALIB8_API calib8_code calib8_open_memory(const void* bytes, size_t size, const calib8_options* options,
                                          calib8_model** model, calib8_error* error);

/* Gives back what a model holds. Its streams stay usable until they are closed. NULL does nothing. */
CALIB8_API void calib8_close(calib8_model* model);

/* What a model is. Texts and tensors live as long as the model or one of its streams. Inputs and outputs that
 * a stream carries from run to run are not counted. An index that there is not gives NULL. */
CALIB8_API const char* calib8_model_name(const calib8_model* model);
CALIB8_API const char* calib8_model_rounding(const calib8_model* model); /* onnx, tflite, single or tengine */
CALIB8_API const char* calib8_model_isa(const calib8_model* model);
CALIB8_API int32_t calib8_model_threads(const calib8_model* model);
CALIB8_API size_t calib8_run_bytes(const calib8_model* model); /* memory of one run */
CALIB8_API int calib8_has_state(const calib8_model* model);
CALIB8_API size_t calib8_input_count(const calib8_model* model);
CALIB8_API size_t calib8_output_count(const calib8_model* model);
CALIB8_API const calib8_tensor* calib8_input(const calib8_model* model, size_t index);
CALIB8_API const calib8_tensor* calib8_output(const calib8_model* model, size_t index);

/* Runs the model once: an array per input and per output, in their order. Of several runs at once the first
 * one gets the threads of the model, the others work alone; each has memory of its own, which is kept for
 * later runs. */
CALIB8_API calib8_code calib8_run(calib8_model* model, const calib8_in* inputs, size_t input_count,
                                  const calib8_out* outputs, size_t output_count, calib8_error* error);

/* Runs that carry the state of a model from one to the next, and begin with that of the plan. A model without
 * a state can be given a stream too: its memory is not shared with other runs. */
CALIB8_API calib8_code calib8_open_stream(calib8_model* model, calib8_stream** stream, calib8_error* error);
CALIB8_API calib8_code calib8_run_stream(calib8_stream* stream, const calib8_in* inputs, size_t input_count,
                                         const calib8_out* outputs, size_t output_count, calib8_error* error);
/* The next run is the first one of a new stream. */
CALIB8_API calib8_code calib8_reset_stream(calib8_stream* stream, calib8_error* error);
CALIB8_API void calib8_close_stream(calib8_stream* stream);

#ifdef __cplusplus
}
#endif

#endif
