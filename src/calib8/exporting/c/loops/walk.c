/* Numbers in another order of axes: elements from one index to the next, the last index fastest. */

struct walk {
  int32_t size[5];
  int32_t step[5];
};
