/* calib8-run: opens a plan, runs it, times it, writes what it gives. Needs calib8.h alone. */
#define _POSIX_C_SOURCE 200809L
#include <calib8.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "npy.h"

static const char usage[] =
    "usage: calib8-run MODEL.c8 [option ...]\n"
    "  --input FILE    array of the next input: .npy, or a file of its bytes; without it random numbers,\n"
    "                  the same ones every time\n"
    "  --dump FOLDER   writes the outputs of the first run into this folder: 0.npy, 1.npy ...\n"
    "  --raw           writes their bytes instead: 0.bin, 1.bin ...\n"
    "  --time N        runs N times more and prints how long a run takes\n"
    "  --threads N     that share the work, 1 to 256; 0: as many as processors may be used (default 1)\n"
    "  --isa NAME      instruction set; without it the fastest of this machine\n";

enum { MOST_ARRAYS = 256 };

typedef struct {
  const char *model, *dump;
  const char* files[MOST_ARRAYS];
  size_t file_count;
  long runs;
  int raw;
  calib8_options options;
} Request;

typedef struct {
  calib8_model* model;
  calib8_stream* stream; /* of a model that carries a state, else NULL */
  size_t inputs, outputs;
  void* memory[2 * MOST_ARRAYS];
  calib8_in in[MOST_ARRAYS];
  calib8_out out[MOST_ARRAYS];
} Session;

static int fail(const char* subject, const char* problem) {
  fprintf(stderr, "calib8-run: %s%s%s\n", subject, *subject == '\0' ? "" : " ", problem);
  return 1;
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* A whole number in 0 … most; −1 for anything else. */
static long whole_number(const char* text, long most) {
  char* end = NULL;
  const long number = strtol(text, &end, 10);
  return *text < '0' || *text > '9' || *end != '\0' || number > most ? -1 : number;
}

/* The request that the words make; not 0 where they make none. */
static int read_words(int count, char** words, Request* request) {
  const calib8_options standard = CALIB8_OPTIONS;
  memset(request, 0, sizeof *request);
  request->options = standard;
  for (int i = 1; i < count; ++i) {
    const char* word = words[i];
    if (strcmp(word, "--raw") == 0) {
      request->raw = 1;
      continue;
    }
    if (strncmp(word, "--", 2) != 0) {
      if (request->model != NULL) return fail(word, "is one model too many");
      request->model = word;
      continue;
    }
    const char* value = i + 1 < count ? words[++i] : NULL;
    if (value == NULL) return fail(word, "needs a value, or is no option");
    if (strcmp(word, "--input") == 0) {
      if (request->file_count == MOST_ARRAYS) return fail(value, "is one input too many");
      request->files[request->file_count++] = value;
    } else if (strcmp(word, "--dump") == 0) {
      request->dump = value;
    } else if (strcmp(word, "--isa") == 0) {
      request->options.isa = value;
    } else if (strcmp(word, "--time") == 0) {
      request->runs = whole_number(value, 1000000);
      if (request->runs < 1) return fail("--time", "takes a whole number, 1 to 1000000");
    } else if (strcmp(word, "--threads") == 0) {
      request->options.threads = (int32_t)whole_number(value, 256);
      if (request->options.threads < 0) return fail("--threads", "takes a whole number, 0 to 256");
    } else {
      return fail(word, "is no option");
    }
  }
  if (request->model == NULL) return fputs(usage, stderr), 1;
  return request->raw && request->dump == NULL ? fail("--raw", "goes with --dump") : 0;
}

/* Numbers in [-1, 1) for floats, 0 or 1 for bool, any bytes for the rest. */
static void fill(const calib8_tensor* tensor, uint64_t* state, void* data) {
  const size_t step = tensor->type == CALIB8_FLOAT64   ? 8
                      : tensor->type == CALIB8_FLOAT32 ? 4
                      : tensor->type == CALIB8_FLOAT16 ? 2
                                                       : 1;
  for (size_t place = 0; place < tensor->bytes; place += step) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t bits = (uint32_t)(*state >> 32);
    const double real = (double)bits / 2147483648.0 - 1.0;
    const float single = (float)(bits >> 8) / 8388608.0f - 1.0f;
    const uint16_t half = (uint16_t)((bits & 0x83FF) | 0x3800); /* 0.5 to 1, either sign */
    const uint8_t byte = (uint8_t)(tensor->type == CALIB8_BOOL ? bits >> 31 : bits >> 24);
    const void* element = step == 8 ? (const void*)&real : step == 4 ? (const void*)&single : &half;
    memcpy((char*)data + place, step == 1 ? &byte : element, step);
  }
}

static int read_input(const char* path, const calib8_tensor* tensor, void* data) {
  const size_t length = strlen(path);
  const char* problem = NULL;
  FILE* file = fopen(path, "rb");
  if (file == NULL) return fail(path, "cannot be read");
  if (length > 4 && strcmp(path + length - 4, ".npy") == 0) {
    problem = npy_read(file, tensor, data);
  } else if (fread(data, 1, tensor->bytes, file) != tensor->bytes || fgetc(file) != EOF) {
    problem = "has another number of bytes than the input";
  }
  fclose(file);
  return problem == NULL ? 0 : fail(path, problem);
}

static void describe(const char* what, const calib8_tensor* tensor) {
  printf("%s '%s': %s", what, tensor->name, calib8_type_name(tensor->type));
  for (int32_t axis = 0; axis < tensor->rank; ++axis) {
    printf("%s%lld", axis == 0 ? " " : "x", (long long)tensor->shape[axis]);
  }
  if (tensor->scale_count == 1)
    printf(", scale %.9g, zero point %d", tensor->scales[0], (int)tensor->zero_point);
  if (tensor->scale_count > 1) printf(", %zu scales", tensor->scale_count);
  putchar('\n');
}

/* Memory for all arrays, and what goes into the inputs. */
static int prepare(const Request* request, Session* session) {
  uint64_t state = 20261130;
  session->inputs = calib8_input_count(session->model);
  session->outputs = calib8_output_count(session->model);
  if (session->inputs > MOST_ARRAYS || session->outputs > MOST_ARRAYS)
    return fail("", "too many inputs or outputs");
  if (request->file_count > session->inputs)
    return fail("--input", "is given more often than there are inputs");
  for (size_t i = 0; i < session->inputs + session->outputs; ++i) {
    const int is_input = i < session->inputs;
    const size_t number = is_input ? i : i - session->inputs;
    const calib8_tensor* tensor =
        is_input ? calib8_input(session->model, number) : calib8_output(session->model, number);
    describe(is_input ? "input" : "output", tensor);
    void* data = session->memory[i] = calloc(tensor->bytes, 1);
    if (data == NULL) return fail(tensor->name, "needs more memory than there is");
    if (!is_input) {
      session->out[number].data = data, session->out[number].bytes = tensor->bytes;
      continue;
    }
    session->in[number].data = data, session->in[number].bytes = tensor->bytes;
    fill(tensor, &state, data);
    if (number < request->file_count && read_input(request->files[number], tensor, data) != 0) return 1;
  }
  return 0;
}

static calib8_code run(Session* session, calib8_error* error) {
  return session->stream == NULL
             ? calib8_run(session->model, session->in, session->inputs, session->out, session->outputs, error)
             : calib8_run_stream(session->stream, session->in, session->inputs, session->out,
                                 session->outputs, error);
}

static int dump(const Request* request, const Session* session) {
  for (size_t i = 0; i < session->outputs; ++i) {
    const calib8_tensor* tensor = calib8_output(session->model, i);
    const size_t room = strlen(request->dump) + 32;
    char* path = malloc(room);
    if (path == NULL) return fail("", "there is no memory");
    snprintf(path, room, "%s/%zu.%s", request->dump, i, request->raw ? "bin" : "npy");
    FILE* file = fopen(path, "wb");
    int failed = file == NULL;
    if (file != NULL) {
      const void* data = session->out[i].data;
      failed = request->raw ? fwrite(data, 1, tensor->bytes, file) != tensor->bytes
                            : npy_write(file, tensor, data);
      failed |= fclose(file) != 0;
    }
    if (failed) (void)fail(path, "cannot be written");
    free(path);
    if (failed) return 1;
  }
  return 0;
}

static int by_size(const void* first, const void* second) {
  const double a = *(const double*)first, b = *(const double*)second;
  return (a > b) - (a < b);
}

static int time_runs(const Request* request, Session* session, calib8_error* error) {
  double* times = malloc((size_t)request->runs * sizeof *times);
  if (times == NULL) return fail("", "there is no memory");
  for (long i = 0; i < request->runs; ++i) {
    const double start = milliseconds();
    if (run(session, error) != CALIB8_OK) return free(times), fail("", error->text);
    times[i] = milliseconds() - start;
  }
  qsort(times, (size_t)request->runs, sizeof *times, by_size);
  printf("%ld runs: median %.3f ms, fastest %.3f ms\n", request->runs, times[request->runs / 2], times[0]);
  free(times);
  return 0;
}

static int work(const Request* request, Session* session) {
  calib8_error error;
  const double start = milliseconds();
  if (calib8_open_file(request->model, &request->options, &session->model, &error) != CALIB8_OK) {
    return fail("", error.text);
  }
  const double opened = milliseconds();
  if (calib8_has_state(session->model) &&
      calib8_open_stream(session->model, &session->stream, &error) != CALIB8_OK) {
    return fail("", error.text);
  }
  if (prepare(request, session) != 0) return 1;
  const double ready = milliseconds();
  if (run(session, &error) != CALIB8_OK) return fail("", error.text);
  printf("%s, %s, threads: %d\n", calib8_model_rounding(session->model), calib8_model_isa(session->model),
         (int)calib8_model_threads(session->model));
  printf("opened in %.3f ms, first run %.3f ms\n", opened - start, milliseconds() - ready);
  if (request->dump != NULL && dump(request, session) != 0) return 1;
  return request->runs > 0 ? time_runs(request, session, &error) : 0;
}

int main(int count, char** words) {
  static Request request;
  static Session session;
  if (read_words(count, words, &request) != 0) return 2;
  const int status = work(&request, &session);
  calib8_close_stream(session.stream);
  calib8_close(session.model);
  for (size_t i = 0; i < sizeof session.memory / sizeof *session.memory; ++i) free(session.memory[i]);
  return status;
}
