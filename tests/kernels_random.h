/* kernels_random.h - the data of tests/test_kernels.c: the same numbers in
   the test and in the programs that it builds, whatever they run on */
#ifndef KERNELS_RANDOM_H
#define KERNELS_RANDOM_H

/* splitmix64 */
static unsigned long long kernels_next(unsigned long long *state)
{
    unsigned long long z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* n values: floats in [-1,1), or bytes in [-half,half). */
static void kernels_fill(void *to, unsigned long n, int half,
                         unsigned long long seed)
{
    unsigned long i;

    for (i = 0; i < n; i++) {
        unsigned long long z = kernels_next(&seed);
        if (half)
            ((signed char *)to)[i] =
                (signed char)((int)(z >> 33 & 255) % (2 * half) - half);
        else
            ((float *)to)[i] = (float)((long)(z >> 40) - 8388608) / 8388608;
    }
}

/* FNV-1a */
static unsigned long long kernels_hash(const void *at, unsigned long n)
{
    const unsigned char *p = (const unsigned char *)at;
    unsigned long long h = 0xcbf29ce484222325u;
    unsigned long i;

    for (i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

#endif
