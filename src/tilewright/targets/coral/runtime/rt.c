/* What the compiler may call by itself. Byte loops: they are never on a hot path. */
#include <stddef.h>

void *memset(void *to, int value, size_t count) {
  unsigned char *p = to;
  while (count--) *p++ = (unsigned char)value;
  return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t count) {
  unsigned char *p = to;
  const unsigned char *q = from;
  while (count--) *p++ = *q++;
  return to;
}
