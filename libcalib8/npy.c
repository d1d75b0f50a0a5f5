/* Headers of .npy files, formats 1 to 3, in one piece and in the order of C. */
#include "npy.h"

#include <stdlib.h>
#include <string.h>

enum { PREFIX = 10, MOST_HEADER = 4096, MOST_AXES = 32 };

/* The type as NumPy writes it in a header, such as "<f4"; at least 4 bytes of room. */
static void type_text(calib8_type type, char* text) {
  static const char kinds[] = {0, 'b', 'i', 'u', 'i', 'u', 'i', 'u', 'i', 'u', 'f', 'f', 'f'};
  static const char sizes[] = {0, '1', '1', '1', '2', '2', '4', '4', '8', '8', '2', '4', '8'};
  const uint16_t one = 1;
  const char order = *(const char*)&one == 1 ? '<' : '>';
  text[0] = sizes[type] == '1' ? '|' : order;
  text[1] = kinds[type];
  text[2] = sizes[type];
  text[3] = '\0';
}

/* Behind the colon of a key of the header; NULL where there is none. */
static const char* value_of(const char* header, const char* key) {
  const char* found = strstr(header, key);
  if (found == NULL) return NULL;
  found += strlen(key);
  while (*found == ' ') ++found;
  return found;
}

static int same_shape(const char* text, const calib8_tensor* tensor) {
  int32_t axis = 0;
  if (text == NULL || *text++ != '(') return 0;
  for (;; ++axis) {
    char* end = NULL;
    while (*text == ' ' || *text == ',') ++text;
    if (*text == ')') return axis == tensor->rank;
    if (axis >= tensor->rank || strtoll(text, &end, 10) != tensor->shape[axis] || end == text) return 0;
    text = end;
  }
}

const char* npy_read(FILE* file, const calib8_tensor* tensor, void* data) {
  unsigned char prefix[PREFIX + 2];
  char header[MOST_HEADER + 1], wanted[4];
  size_t size = 0;
  if (fread(prefix, 1, PREFIX, file) != PREFIX || memcmp(prefix, "\x93NUMPY", 6) != 0)
    return "is no .npy file";
  size = (size_t)prefix[8] | (size_t)prefix[9] << 8;
  if (prefix[6] > 1) { /* a length of four bytes */
    if (fread(prefix + PREFIX, 1, 2, file) != 2) return "is truncated";
    size |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
  }
  if (size > MOST_HEADER) return "has a header that is too long";
  if (fread(header, 1, size, file) != size) return "is truncated";
  header[size] = '\0';
  type_text(tensor->type, wanted);
  const char *type = value_of(header, "'descr':"), *order = value_of(header, "'fortran_order':");
  if (type == NULL || *type != '\'' || strncmp(type + 1, wanted, 3) != 0 || type[4] != '\'') {
    return "has elements of another type than the input";
  }
  if (order == NULL || strncmp(order, "False", 5) != 0) return "is not in the order of C";
  if (!same_shape(value_of(header, "'shape':"), tensor)) return "has another shape than the input";
  if (fread(data, 1, tensor->bytes, file) != tensor->bytes) return "is truncated";
  return fgetc(file) == EOF ? NULL : "is longer than its array";
}

int npy_write(FILE* file, const calib8_tensor* tensor, const void* data) {
  char header[MOST_HEADER], type[4];
  int32_t axis = 0;
  type_text(tensor->type, type);
  int size = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
  for (; axis < tensor->rank; ++axis) { /* at most 32 axes of 20 characters */
    size += snprintf(header + size, sizeof header - (size_t)size, "%lld%s", (long long)tensor->shape[axis],
                     tensor->rank == 1         ? ","
                     : axis + 1 < tensor->rank ? ", "
                                               : "");
  }
  size += snprintf(header + size, sizeof header - (size_t)size, "), }");
  const int end = (PREFIX + size + 1 + 63) / 64 * 64; /* the array begins at a multiple of 64 bytes */
  while (PREFIX + size + 1 < end) header[size++] = ' ';
  header[size++] = '\n';
  const unsigned char prefix[PREFIX] = {
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(size & 0xFF), (unsigned char)(size >> 8)};
  return fwrite(prefix, 1, PREFIX, file) != PREFIX || fwrite(header, 1, (size_t)size, file) != (size_t)size ||
         fwrite(data, 1, tensor->bytes, file) != tensor->bytes;
}
