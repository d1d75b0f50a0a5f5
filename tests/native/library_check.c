/* Checks of the C library that use calib8.h alone, as any program would. Exit code 1 at the first that fails.
 *
 *   library_check codes FILE FOLDER     codes and texts for whatever a caller can do wrong; FOLDER is any
 * folder library_check threads FILE RUNS     16 threads on one model, each with a stream of its own too
 *   library_check stream FILE FRAMES    states: prints a checksum of the outputs of every frame
 *   library_check forks FILE COUNT      children that go on with what is open, while threads run it
 *   library_check sets                  prints the instruction sets of this machine
 *   library_check files FILE...         opens each, from the file and from memory, and runs what opens
 */
#define _POSIX_C_SOURCE 200809L
#include <calib8.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(holds)                                              \
  do {                                                            \
    if (!(holds)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds); \
      exit(1);                                                    \
    }                                                             \
  } while (0)

enum { MOST = 64, THREADS = 16 };

typedef struct {
  size_t inputs, outputs;
  calib8_in in[MOST];
  calib8_out out[MOST];
} Arrays;

static void* zeros(size_t bytes) {
  void* memory = calloc(bytes == 0 ? 1 : bytes, 1);
  CHECK(memory != NULL);
  return memory;
}

/* Arrays for a model; 0 where they would be too large for a check. Inputs hold small numbers of either sign.
 */
static int make_arrays(const calib8_model* model, Arrays* arrays) {
  size_t total = 0;
  memset(arrays, 0, sizeof *arrays);
  arrays->inputs = calib8_input_count(model);
  arrays->outputs = calib8_output_count(model);
  if (arrays->inputs > MOST || arrays->outputs > MOST) return 0;
  for (size_t i = 0; i < arrays->inputs; ++i) total += calib8_input(model, i)->bytes;
  for (size_t i = 0; i < arrays->outputs; ++i) total += calib8_output(model, i)->bytes;
  if (total > (size_t)1 << 26) return 0;
  for (size_t i = 0; i < arrays->inputs; ++i) {
    const calib8_tensor* tensor = calib8_input(model, i);
    unsigned char* data = zeros(tensor->bytes);
    for (size_t place = 0; place < tensor->bytes; ++place) data[place] = (unsigned char)(place * 37 + i);
    if (tensor->type == CALIB8_FLOAT32) {
      for (size_t place = 0; place < tensor->bytes / sizeof(float); ++place) {
        ((float*)(void*)data)[place] = (float)((int)(place * 37 % 101) - 50) / 250.0f;
      }
    } else if (tensor->type == CALIB8_BOOL) {
      for (size_t place = 0; place < tensor->bytes; ++place) data[place] &= 1;
    }
    arrays->in[i].data = data;
    arrays->in[i].bytes = tensor->bytes;
  }
  for (size_t i = 0; i < arrays->outputs; ++i) {
    arrays->out[i].bytes = calib8_output(model, i)->bytes;
    arrays->out[i].data = zeros(arrays->out[i].bytes);
  }
  return 1;
}

static void free_arrays(Arrays* arrays) {
  for (size_t i = 0; i < arrays->inputs; ++i) free((void*)(size_t)arrays->in[i].data);
  for (size_t i = 0; i < arrays->outputs; ++i) free(arrays->out[i].data);
}

static calib8_code run(calib8_model* model, const Arrays* arrays, calib8_error* error) {
  return calib8_run(model, arrays->in, arrays->inputs, arrays->out, arrays->outputs, error);
}

static void* whole_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  const long length = ftell(file);
  CHECK(length >= 0 && fseek(file, 0, SEEK_SET) == 0);
  void* bytes = zeros((size_t)length);
  CHECK(fread(bytes, 1, (size_t)length, file) == (size_t)length);
  fclose(file);
  *size = (size_t)length;
  return bytes;
}

static void expect(calib8_code got, calib8_code wanted, const calib8_error* error, const char* words) {
  if (got == wanted && error->code == wanted && strstr(error->text, words) != NULL) return;
  fprintf(stderr, "got %s '%s', not %s '%s'\n", calib8_code_name(got), error->text, calib8_code_name(wanted),
          words);
  exit(1);
}

static void check_names(void) {
  size_t sets = 0;
  CHECK(calib8_abi_version() == CALIB8_ABI_VERSION && calib8_version()[0] != '\0' &&
        calib8_plan_format() >= 4);
  for (int32_t code = CALIB8_OK; code <= CALIB8_INTERNAL; ++code) CHECK(calib8_code_name(code) != NULL);
  for (int32_t type = CALIB8_BOOL; type <= CALIB8_FLOAT64; ++type) CHECK(calib8_type_name(type) != NULL);
  CHECK(calib8_code_name(-1) == NULL && calib8_code_name(CALIB8_INTERNAL + 1) == NULL);
  CHECK(calib8_type_name(0) == NULL && calib8_type_name(CALIB8_FLOAT64 + 1) == NULL);
  while (calib8_available_isa(sets) != NULL) ++sets;
  CHECK(sets > 0 && strcmp(calib8_available_isa(sets - 1), "reference") == 0);
  CHECK(sizeof(calib8_error) == 512);
  CHECK(calib8_input(NULL, 0) == NULL && calib8_model_name(NULL) == NULL && calib8_input_count(NULL) == 0);
  calib8_close(NULL);
  calib8_close_stream(NULL);
}

static void check_options(const char* path) {
  calib8_model* model = NULL;
  calib8_error error;
  struct {
    calib8_options known;
    int32_t later[4];
  } longer = {CALIB8_OPTIONS, {0}};
  calib8_options options = CALIB8_OPTIONS;
  options.size = 4;
  expect(calib8_open_file(path, &options, &model, &error), CALIB8_BAD_ARGUMENT, &error, "options of 4 bytes");
  CHECK(model == NULL);
  options.size = sizeof options;
  options.threads = 257;
  expect(calib8_open_file(path, &options, &model, &error), CALIB8_BAD_ARGUMENT, &error, "not 257");
  options.threads = -1;
  expect(calib8_open_file(path, &options, &model, &error), CALIB8_BAD_ARGUMENT, &error, "not -1");
  options.threads = 1;
  options.reserved = 1;
  expect(calib8_open_file(path, &options, &model, &error), CALIB8_BAD_ARGUMENT, &error, "does not know");
  options.reserved = 0;
  options.isa = "sse9";
  expect(calib8_open_file(path, &options, &model, &error), CALIB8_NO_ISA, &error, "'sse9' is unknown");
  options.isa = "\n";
  expect(calib8_open_file(path, &options, &model, &error), CALIB8_NO_ISA, &error, "'?' is unknown");
  longer.known.size = sizeof longer;
  expect(calib8_open_file(path, &longer.known, &model, &error), CALIB8_OK, &error, "");
  calib8_close(model);
  longer.later[2] = 1;
  expect(calib8_open_file(path, &longer.known, &model, &error), CALIB8_BAD_ARGUMENT, &error, "does not know");
  options.isa = "reference";
  options.threads = 0;
  expect(calib8_open_file(path, &options, &model, &error), CALIB8_OK, &error, "");
  CHECK(strcmp(calib8_model_isa(model), "reference") == 0 && calib8_model_threads(model) >= 1);
  CHECK(calib8_run_bytes(model) > 0 && calib8_model_rounding(model)[0] != '\0' && !calib8_has_state(model));
  calib8_close(model);
}

static void check_files(const char* path, const char* folder) {
  calib8_model* model = NULL;
  calib8_error error;
  size_t size = 0;
  unsigned char* bytes = whole_file(path, &size);
  expect(calib8_open_file("no/such/file.c8", NULL, &model, &error), CALIB8_NO_FILE, &error,
         "no/such/file.c8: cannot");
  expect(calib8_open_file("no/\x1b[2J\nfile.c8", NULL, &model, &error), CALIB8_NO_FILE, &error,
         "no/?[2J?file.c8: cannot"); /* one line, whatever is given */
  expect(calib8_open_file(folder, NULL, &model, &error), CALIB8_NO_FILE, &error, "no regular file");
  expect(calib8_open_file(NULL, NULL, &model, &error), CALIB8_BAD_ARGUMENT, &error, "path is NULL");
  expect(calib8_open_file(path, NULL, NULL, &error), CALIB8_BAD_ARGUMENT, &error, "model is NULL");
  expect(calib8_open_memory(NULL, 5, NULL, &model, &error), CALIB8_BAD_ARGUMENT, &error, "bytes is NULL");
  CHECK(calib8_open_file("no/such/file.c8", NULL, &model, NULL) == CALIB8_NO_FILE && model == NULL);
  expect(calib8_open_memory(bytes, 0, NULL, &model, &error), CALIB8_NOT_A_PLAN, &error, "not a plan");
  expect(calib8_open_memory(bytes, 20, NULL, &model, &error), CALIB8_BROKEN_PLAN, &error,
         "truncated: 20 bytes");
  expect(calib8_open_memory(bytes, size - 8, NULL, &model, &error), CALIB8_BROKEN_PLAN, &error, "truncated");
  bytes[size / 2] ^= 4;
  expect(calib8_open_memory(bytes, size, NULL, &model, &error), CALIB8_BROKEN_PLAN, &error, "checksum");
  bytes[8] = 200;
  expect(calib8_open_memory(bytes, size, NULL, &model, &error), CALIB8_NEWER_PLAN, &error, "format 200");
  bytes[0] = 'P';
  expect(calib8_open_memory(bytes, size, NULL, &model, &error), CALIB8_NOT_A_PLAN, &error, "not a plan");
  free(bytes);
}

static void check_in_place(const char* path) {
  calib8_model* model = NULL;
  calib8_error error;
  calib8_options options = CALIB8_OPTIONS;
  size_t size = 0;
  unsigned char *bytes = whole_file(path, &size), *room = zeros(size + 128);
  unsigned char* aligned = room + (64 - (size_t)room % 64);
  options.in_place = 1;
  memcpy(aligned + 8, bytes, size);
  expect(calib8_open_memory(aligned + 8, size, &options, &model, &error), CALIB8_BAD_ARGUMENT, &error,
         "64 bytes");
  memcpy(aligned, bytes, size);
  expect(calib8_open_memory(aligned, size, &options, &model, &error), CALIB8_OK, &error, "");
  calib8_close(model);
  free(room);
  free(bytes);
}

static void check_arrays(const char* path) {
  calib8_model* model = NULL;
  calib8_stream* stream = NULL;
  calib8_error error;
  Arrays arrays;
  expect(calib8_open_file(path, NULL, &model, &error), CALIB8_OK, &error, "");
  CHECK(make_arrays(model, &arrays) && arrays.inputs > 0 && arrays.outputs > 0);
  const Arrays good = arrays;
  expect(run(model, &arrays, &error), CALIB8_OK, &error, "");
  expect(calib8_run(NULL, arrays.in, 1, arrays.out, 1, &error), CALIB8_BAD_ARGUMENT, &error, "model is NULL");
  expect(calib8_run(model, arrays.in, arrays.inputs + 1, arrays.out, arrays.outputs, &error),
         CALIB8_BAD_ARGUMENT, &error, "arrays for");
  expect(calib8_run(model, NULL, arrays.inputs, arrays.out, arrays.outputs, &error), CALIB8_BAD_ARGUMENT,
         &error, "NULL");
  arrays.in[0].bytes -= 1;
  expect(run(model, &arrays, &error), CALIB8_WRONG_ARRAY, &error, calib8_input(model, 0)->name);
  arrays = good;
  arrays.out[0].bytes += 1;
  expect(run(model, &arrays, &error), CALIB8_WRONG_ARRAY, &error, calib8_output(model, 0)->name);
  arrays = good;
  arrays.in[0].data = NULL;
  expect(run(model, &arrays, &error), CALIB8_BAD_ARGUMENT, &error, "is NULL");
  arrays = good;
  if (calib8_input(model, 0)->type == CALIB8_FLOAT32) {
    arrays.in[0].data = (const char*)good.in[0].data + 1; /* never read: refused */
    expect(run(model, &arrays, &error), CALIB8_WRONG_ARRAY, &error, "not aligned");
    arrays = good;
  }
  if (arrays.in[0].bytes >= arrays.out[0].bytes) {
    arrays.out[0].data = (void*)(size_t)arrays.in[0].data;
    expect(run(model, &arrays, &error), CALIB8_WRONG_ARRAY, &error, "over another array");
    arrays = good;
  }
  expect(calib8_open_stream(NULL, &stream, &error), CALIB8_BAD_ARGUMENT, &error, "model is NULL");
  expect(calib8_open_stream(model, &stream, &error), CALIB8_OK, &error, "");
  calib8_close(model); /* the stream keeps what it needs */
  expect(calib8_run_stream(stream, arrays.in, arrays.inputs, arrays.out, arrays.outputs, &error), CALIB8_OK,
         &error, "");
  expect(calib8_reset_stream(NULL, &error), CALIB8_BAD_ARGUMENT, &error, "stream is NULL");
  calib8_close_stream(stream);
  free_arrays(&arrays);
}

typedef struct {
  calib8_model* model;
  const Arrays* wanted;
  int runs;
} Share;

static void* run_share(void* argument) {
  const Share* share = argument;
  calib8_stream* stream = NULL;
  calib8_error error;
  Arrays own;
  CHECK(make_arrays(share->model, &own));
  expect(calib8_open_stream(share->model, &stream, &error), CALIB8_OK, &error, "");
  for (int number = 0; number < share->runs; ++number) {
    for (size_t i = 0; i < own.outputs; ++i) memset(own.out[i].data, 0xA5, own.out[i].bytes);
    const calib8_code code =
        number % 2 == 0 ? run(share->model, &own, &error)
                        : calib8_run_stream(stream, own.in, own.inputs, own.out, own.outputs, &error);
    expect(code, CALIB8_OK, &error, "");
    for (size_t i = 0; i < own.outputs; ++i) {
      CHECK(memcmp(own.out[i].data, share->wanted->out[i].data, own.out[i].bytes) == 0);
    }
  }
  calib8_close_stream(stream);
  free_arrays(&own);
  return NULL;
}

static void check_threads(const char* path, int runs) {
  calib8_model* model = NULL;
  calib8_options options = CALIB8_OPTIONS;
  calib8_error error;
  Arrays wanted;
  pthread_t threads[THREADS];
  options.threads = 2;
  expect(calib8_open_file(path, &options, &model, &error), CALIB8_OK, &error, "");
  CHECK(make_arrays(model, &wanted));
  expect(run(model, &wanted, &error), CALIB8_OK, &error, "");
  Share share = {model, &wanted, runs};
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, run_share, &share) == 0);
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  calib8_close(model);
  free_arrays(&wanted);
}

/* Children go on with the model and a stream that were open, whatever the threads of the parent were doing.
 */
static void check_forks(const char* path, int count) {
  calib8_model* model = NULL;
  calib8_stream* stream = NULL;
  calib8_options options = CALIB8_OPTIONS;
  calib8_error error;
  Arrays wanted;
  pthread_t thread;
  options.threads = 2;
  expect(calib8_open_file(path, &options, &model, &error), CALIB8_OK, &error, "");
  expect(calib8_open_stream(model, &stream, &error), CALIB8_OK, &error, "");
  CHECK(make_arrays(model, &wanted));
  expect(run(model, &wanted, &error), CALIB8_OK, &error, "");
  Share share = {model, &wanted, 50 * count}, once = {model, &wanted, 4};
  CHECK(pthread_create(&thread, NULL, run_share, &share) == 0);
  for (int i = 0; i < count; ++i) {
    int status = 0;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      run_share(&once);
      const calib8_code code =
          calib8_run_stream(stream, wanted.in, wanted.inputs, wanted.out, wanted.outputs, &error);
      _exit(code == CALIB8_OK ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  calib8_close_stream(stream);
  calib8_close(model);
  free_arrays(&wanted);
}

static uint64_t sum_of(const Arrays* arrays) {
  uint64_t sum = 1469598103934665603u; /* FNV-1a */
  for (size_t i = 0; i < arrays->outputs; ++i) {
    for (size_t place = 0; place < arrays->out[i].bytes; ++place) {
      sum = (sum ^ ((const unsigned char*)arrays->out[i].data)[place]) * 1099511628211u;
    }
  }
  return sum;
}

static void check_stream(const char* path, int frames) {
  calib8_model* model = NULL;
  calib8_stream* stream = NULL;
  calib8_error error;
  Arrays arrays;
  uint64_t first = 0;
  expect(calib8_open_file(path, NULL, &model, &error), CALIB8_OK, &error, "");
  CHECK(calib8_has_state(model) && make_arrays(model, &arrays));
  expect(run(model, &arrays, &error), CALIB8_NEEDS_STREAM, &error, "open a stream");
  expect(calib8_open_stream(model, &stream, &error), CALIB8_OK, &error, "");
  for (int frame = 0; frame < frames; ++frame) {
    expect(calib8_run_stream(stream, arrays.in, arrays.inputs, arrays.out, arrays.outputs, &error), CALIB8_OK,
           &error, "");
    printf("%016llx\n", (unsigned long long)sum_of(&arrays));
    if (frame == 0) first = sum_of(&arrays);
  }
  expect(calib8_reset_stream(stream, &error), CALIB8_OK, &error, "");
  expect(calib8_run_stream(stream, arrays.in, arrays.inputs, arrays.out, arrays.outputs, &error), CALIB8_OK,
         &error, "");
  CHECK(sum_of(&arrays) == first);
  calib8_close_stream(stream);
  calib8_close(model);
  free_arrays(&arrays);
}

/* Runs a model twice, whatever comes out. A plan may ask for more memory than there is. */
static void try_runs(calib8_model* model) {
  calib8_error error;
  Arrays arrays;
  calib8_stream* stream = NULL;
  if (make_arrays(model, &arrays)) {
    const calib8_code opened = calib8_open_stream(model, &stream, &error);
    CHECK(opened == CALIB8_OK || opened == CALIB8_NO_MEMORY);
    for (int i = 0; i < 2 && opened == CALIB8_OK; ++i) {
      const calib8_code code =
          calib8_run_stream(stream, arrays.in, arrays.inputs, arrays.out, arrays.outputs, &error);
      CHECK(code == CALIB8_OK || code == CALIB8_WRONG_ARRAY); /* lengths of sequences that are none */
    }
    calib8_close_stream(stream);
  }
  free_arrays(&arrays);
}

static void check_hostile(int count, char** paths) {
  int codes[CALIB8_INTERNAL + 1] = {0};
  for (int i = 0; i < count; ++i) {
    calib8_model* model = NULL;
    calib8_error error, again;
    calib8_options options = CALIB8_OPTIONS;
    size_t size = 0, sets = 0;
    void* bytes = whole_file(paths[i], &size);
    while (calib8_available_isa(sets) != NULL) ++sets;
    options.isa = calib8_available_isa((size_t)i % sets);
    fprintf(stderr, "%s\n", paths[i]);
    const calib8_code code = calib8_open_file(paths[i], &options, &model, &error);
    CHECK(code >= CALIB8_OK && code < CALIB8_INTERNAL && (code == CALIB8_OK) == (model != NULL));
    CHECK((code == CALIB8_OK) == (error.text[0] == '\0'));
    ++codes[code];
    if (model != NULL) try_runs(model);
    calib8_close(model);
    CHECK(calib8_open_memory(bytes, size, &options, &model, &again) == code);
    calib8_close(model);
    free(bytes);
  }
  for (int32_t code = 0; code < CALIB8_INTERNAL; ++code) {
    if (codes[code] > 0) printf("%s %d\n", calib8_code_name(code), codes[code]);
  }
}

int main(int count, char** words) {
  if (count == 2 && strcmp(words[1], "sets") == 0) {
    for (size_t i = 0; calib8_available_isa(i) != NULL; ++i) puts(calib8_available_isa(i));
    return 0;
  }
  if (count >= 4 && strcmp(words[1], "codes") == 0) {
    check_names();
    check_options(words[2]);
    check_files(words[2], words[3]);
    check_in_place(words[2]);
    check_arrays(words[2]);
  } else if (count >= 4 && strcmp(words[1], "threads") == 0) {
    check_threads(words[2], atoi(words[3]));
  } else if (count >= 4 && strcmp(words[1], "forks") == 0) {
    check_forks(words[2], atoi(words[3]));
  } else if (count >= 4 && strcmp(words[1], "stream") == 0) {
    check_stream(words[2], atoi(words[3]));
  } else if (count >= 3 && strcmp(words[1], "files") == 0) {
    check_hostile(count - 2, words + 2);
  } else {
    return 2;
  }
  return 0;
}
