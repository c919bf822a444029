/* Noise on a grid, in C. `twin.py` does the same in NumPy, bit for bit; `docs/numbers.md` has the mathematics.
 *
 * Two ways in. `release` draws its own AES-256 bits, samples and adds; it needs a processor with AVX-512 and VAES, or one
 * with AVX2 and AES (`lanes` says which). `sample` and `add` are plain C for every other processor and take random words
 * that were made elsewhere. Decisions that 40 bits can't make are handed to the Python function `decide`.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { KNOT_BITS = 21, BINS = 192, FIRST = -96, DEGREE = 12, FIXED_BITS = 40, ROOM = 64, GROUP = 16, PIECE = 256, CHUNK = 8192 };
#define SLOW_BLOCKS 0x80000000u /* where the blocks of proposals begin in a stream */

static uint32_t alias_table[64] __attribute__((aligned(64)));
static uint32_t ends[BINS + 1];
static int64_t coefficients[BINS][DEGREE + 1];
static uint16_t first_bin[257]; /* the bin in which the units with these top 8 bits begin */

/* One knot with its two uniform numbers: 64 random bits. */
static inline int32_t draw_one(uint32_t a, uint32_t b, int *slow)
{
    uint32_t column = alias_table[a & 63];
    uint32_t code = (a << 10) < (column & 0xffff0000u) ? a : column;
    int32_t knot = (int32_t)(code << 26) >> 26;
    uint32_t one = b >> 11, two = (a >> 22 | b << 10) & ((1u << KNOT_BITS) - 1);
    *slow = knot == -32;
    return (int32_t)((uint32_t)knot << KNOT_BITS) + (int32_t)(one + two) - ((1 << KNOT_BITS) - 1);
}

/* `count` draws (a multiple of 16) from 2·count words; the places of those that want a proposal go to `slow`. */
static size_t sample_words(const uint32_t *words, int32_t *out, uint32_t *slow, size_t count)
{
    size_t marked = 0;
    for (size_t start = 0; start < count; start += GROUP, words += 2 * GROUP)
        for (size_t lane = 0; lane < GROUP; lane++) {
            int is_slow;
            out[start + lane] = draw_one(words[lane], words[GROUP + lane], &is_slow);
            slow[marked] = (uint32_t)(start + lane);
            marked += is_slow;
        }
    return marked;
}

/* (the sum rounded to the grid + the noise)·g. Integers below 2⁵³ in double precision: nothing is lost in between.
 * 1.5·2⁵² + x rounds x to the nearest integer, ties to even. A value that is not a number becomes the lower limit. */
#define LIMIT 1125899906842624.0 /* 2⁵⁰ */
#define ADD(type)                                                                                                     \
    for (size_t i = 0; i < count; i++) {                                                                              \
        double cells = (double)((type *)values)[i] * inverse;                                                         \
        cells = cells >= -LIMIT ? cells : -LIMIT;                                                                     \
        cells = cells <= LIMIT ? cells : LIMIT;                                                                       \
        cells = (cells + 6755399441055744.0) - 6755399441055744.0;                                                    \
        ((type *)values)[i] = (type)((cells + (double)noise[i]) * grid);                                              \
    }

static void add_plain(void *values, int wide, const int32_t *noise, size_t count, double grid, double inverse)
{
    if (wide) { ADD(double) } else { ADD(float) }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define VECTOR __attribute__((target("avx2,aes")))
#define PAIRS __attribute__((target("avx2,aes,vaes")))
#define WIDE_VECTOR __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi2,vaes,aes")))
#define ROUNDS 14

static int encrypts_pairs(void) { return __builtin_cpu_supports("vaes") != 0; }

/* The draws that this processor makes side by side. */
static int lanes_here(void)
{
    if (__builtin_cpu_supports("vaes") && __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("aes") ? 8 : 0;
}

WIDE_VECTOR static void add_wide(void *values, int wide, const int32_t *noise, size_t count, double grid, double inverse)
{
    if (wide) { ADD(double) } else { ADD(float) }
}

/* Compilers leave ADD as it is here. Of what is no number and a limit, max takes the limit. */
VECTOR static void add_narrow(void *values, int wide, const int32_t *noise, size_t count, double grid, double inverse)
{
    const __m256d scale = _mm256_set1_pd(inverse), width = _mm256_set1_pd(grid), least = _mm256_set1_pd(-LIMIT),
                  most = _mm256_set1_pd(LIMIT), whole = _mm256_set1_pd(6755399441055744.0);
    size_t vectors = count / 4 * 4;
    for (size_t i = 0; i < vectors; i += 4) {
        __m256d cells = wide ? _mm256_loadu_pd((double *)values + i) : _mm256_cvtps_pd(_mm_loadu_ps((float *)values + i));
        cells = _mm256_min_pd(_mm256_max_pd(_mm256_mul_pd(cells, scale), least), most);
        cells = _mm256_sub_pd(_mm256_add_pd(cells, whole), whole);
        cells = _mm256_add_pd(cells, _mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i *)(noise + i))));
        cells = _mm256_mul_pd(cells, width);
        if (wide)
            _mm256_storeu_pd((double *)values + i, cells);
        else
            _mm_storeu_ps((float *)values + i, _mm256_cvtpd_ps(cells));
    }
    add_plain((char *)values + vectors * (wide ? 8 : 4), wide, noise + vectors, count - vectors, grid, inverse);
}

VECTOR static inline __m128i spread(__m128i key)
{
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    return _mm_xor_si128(key, _mm_slli_si128(key, 4));
}

/* FIPS 197, section 5.2, for 256 bits. */
VECTOR static void expand_key(const uint8_t *key, __m128i *keys)
{
    __m128i even = _mm_loadu_si128((const __m128i *)key), odd = _mm_loadu_si128((const __m128i *)(key + 16));
    keys[0] = even, keys[1] = odd;
#define EVEN(constant)                                                                                                \
    even = _mm_xor_si128(spread(even), _mm_shuffle_epi32(_mm_aeskeygenassist_si128(odd, constant), 0xff))
#define ODD odd = _mm_xor_si128(spread(odd), _mm_shuffle_epi32(_mm_aeskeygenassist_si128(even, 0), 0xaa))
    EVEN(1), keys[2] = even, ODD, keys[3] = odd, EVEN(2), keys[4] = even, ODD, keys[5] = odd;
    EVEN(4), keys[6] = even, ODD, keys[7] = odd, EVEN(8), keys[8] = even, ODD, keys[9] = odd;
    EVEN(16), keys[10] = even, ODD, keys[11] = odd, EVEN(32), keys[12] = even, ODD, keys[13] = odd;
    EVEN(64), keys[14] = even;
}

/* The words of one block of a stream. */
VECTOR static void one_block(const __m128i *keys, uint64_t high, uint64_t low, uint32_t *words)
{
    __m128i block = _mm_set_epi64x((int64_t)__builtin_bswap64(low), (int64_t)__builtin_bswap64(high));
    block = _mm_xor_si128(block, keys[0]);
    for (int round = 1; round < ROUNDS; round++)
        block = _mm_aesenc_si128(block, keys[round]);
    _mm_storeu_si128((__m128i *)words, _mm_aesenclast_si128(block, keys[ROUNDS]));
}

typedef struct { const __m128i *keys; uint64_t high, low; uint32_t proposal; PyObject *decide; Py_ssize_t row; } Stream;

/* The value of the stream's next accepted proposal; 0 and an exception set where Python failed. */
VECTOR static int32_t next_accepted(Stream *stream)
{
    for (;;) {
        uint32_t words[4], number = stream->proposal++;
        one_block(stream->keys, stream->high, stream->low | (SLOW_BLOCKS + number), words);
        int bin = first_bin[words[0] >> 24];
        while (bin < BINS && ends[bin + 1] <= words[0])
            bin++;
        if (bin < BINS) {
            int64_t place = words[1] & ((1 << KNOT_BITS) - 1), centred = place - (1 << (KNOT_BITS - 1));
            int64_t value = coefficients[bin][DEGREE];
            for (int k = DEGREE - 1; k >= 0; k--)
                value = ((value * centred) >> (KNOT_BITS - 1)) + coefficients[bin][k];
            int64_t difference = (int64_t)(((uint64_t)words[3] << 32 | words[2]) >> (64 - FIXED_BITS)) - value;
            if (difference < -ROOM)
                return (int32_t)((bin + FIRST) * (1 << KNOT_BITS) + place);
            if (difference > ROOM)
                continue;
        } else if (words[0] != ends[BINS])
            continue;
        PyObject *answer = PyObject_CallFunction(stream->decide, "nIy#", stream->row, (unsigned)number, (char *)words,
                                                 (Py_ssize_t)sizeof words);
        if (answer == NULL)
            return 0;
        long decided = answer == Py_None ? 0 : PyLong_AsLong(answer);
        int accepted = answer != Py_None;
        Py_DECREF(answer);
        if (PyErr_Occurred())
            return 0;
        if (accepted)
            return (int32_t)decided;
    }
}

/* `count` draws (a multiple of 32) from the block `first` of the stream on, 16 side by side. Of the memory that they are
 * added to then, `item` bytes for each, the core is told while it computes. */
WIDE_VECTOR static size_t sample_wide(const Stream *stream, uint32_t first, int32_t *out, uint32_t *slow, size_t count,
                                      const char *soon, size_t item)
{
    __m512i keys[ROUNDS + 1];
    for (int round = 0; round <= ROUNDS; round++)
        keys[round] = _mm512_broadcast_i32x4(stream->keys[round]);
    const __m512i reversed = _mm512_broadcast_i32x4(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m512i t0 = _mm512_load_si512(alias_table), t1 = _mm512_load_si512(alias_table + 16),
                  t2 = _mm512_load_si512(alias_table + 32), t3 = _mm512_load_si512(alias_table + 48);
    const __m512i top = _mm512_set1_epi32((int32_t)0xffff0000), bit5 = _mm512_set1_epi32(32),
                  most = _mm512_set1_epi32((1 << KNOT_BITS) - 1), is_slow = _mm512_set1_epi32(INT32_MIN),
                  lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    uint64_t low = stream->low | first, high = stream->high;
    __m512i counter = _mm512_set_epi64(high, low + 3, high, low + 2, high, low + 1, high, low);
    const __m512i step = _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4);
    size_t marked = 0;
    for (size_t start = 0; start < count; start += 2 * GROUP) {
        __m512i words[4];
        for (size_t line = 0; line < 2 * GROUP * item; line += 64)
            __builtin_prefetch(soon + start * item + line, 1);
        for (int i = 0; i < 4; i++) {
            words[i] = _mm512_xor_si512(_mm512_shuffle_epi8(counter, reversed), keys[0]);
            counter = _mm512_add_epi64(counter, step);
        }
        for (int round = 1; round < ROUNDS; round++)
            for (int i = 0; i < 4; i++)
                words[i] = _mm512_aesenc_epi128(words[i], keys[round]);
        for (int i = 0; i < 4; i++)
            words[i] = _mm512_aesenclast_epi128(words[i], keys[ROUNDS]);
        for (int group = 0; group < 2; group++) {
            __m512i a = words[2 * group], b = words[2 * group + 1];
            __m512i column = _mm512_mask_blend_epi32(_mm512_test_epi32_mask(a, bit5), _mm512_permutex2var_epi32(t0, a, t1),
                                                     _mm512_permutex2var_epi32(t2, a, t3));
            __mmask16 own = _mm512_cmplt_epu32_mask(_mm512_slli_epi32(a, 10), _mm512_and_si512(column, top));
            __m512i knot = _mm512_slli_epi32(_mm512_mask_blend_epi32(own, column, a), 26);
            __m512i one = _mm512_srli_epi32(b, 11), two = _mm512_and_si512(_mm512_shrdi_epi32(a, b, 22), most);
            __m512i value = _mm512_add_epi32(_mm512_srai_epi32(knot, 26 - KNOT_BITS), one);
            value = _mm512_add_epi32(value, _mm512_sub_epi32(two, most));
            size_t at = start + GROUP * group;
            _mm512_storeu_si512(out + at, value);
            __mmask16 marks = _mm512_cmpeq_epi32_mask(knot, is_slow);
            if (__builtin_expect(marks, 0)) {
                _mm512_mask_compressstoreu_epi32(slow + marked, marks, _mm512_add_epi32(lanes, _mm512_set1_epi32((int)at)));
                marked += (size_t)__builtin_popcount(marks);
            }
        }
    }
    return marked;
}

/* The words of `count` blocks (a multiple of 16) of the stream from block `first` on. */
VECTOR static void blocks_by_one(const Stream *stream, uint32_t first, uint32_t *words, size_t count)
{
    for (uint64_t low = stream->low | first; count > 0; count -= 8, low += 8, words += 32) {
        __m128i block[8];
        for (int i = 0; i < 8; i++) {
            uint64_t number = __builtin_bswap64(low + (uint64_t)i), high = __builtin_bswap64(stream->high);
            block[i] = _mm_xor_si128(_mm_set_epi64x((int64_t)number, (int64_t)high), stream->keys[0]);
        }
        for (int round = 1; round < ROUNDS; round++)
            for (int i = 0; i < 8; i++)
                block[i] = _mm_aesenc_si128(block[i], stream->keys[round]);
        for (int i = 0; i < 8; i++)
            _mm_storeu_si128((__m128i *)words + i, _mm_aesenclast_si128(block[i], stream->keys[ROUNDS]));
    }
}

/* The same for processors that encrypt two blocks at once. */
PAIRS static void blocks_by_two(const Stream *stream, uint32_t first, uint32_t *words, size_t count)
{
    const __m256i reversed = _mm256_broadcastsi128_si256(_mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
                  step = _mm256_set_epi64x(0, 2, 0, 2);
    int64_t low = (int64_t)(stream->low | first), high = (int64_t)stream->high;
    __m256i keys[ROUNDS + 1], counter = _mm256_set_epi64x(high, low + 1, high, low);
    for (int round = 0; round <= ROUNDS; round++)
        keys[round] = _mm256_broadcastsi128_si256(stream->keys[round]);
    for (; count > 0; count -= 16, words += 64) {
        __m256i pair[8];
        for (int i = 0; i < 8; i++) {
            pair[i] = _mm256_xor_si256(_mm256_shuffle_epi8(counter, reversed), keys[0]);
            counter = _mm256_add_epi64(counter, step);
        }
        for (int round = 1; round < ROUNDS; round++)
            for (int i = 0; i < 8; i++)
                pair[i] = _mm256_aesenc_epi128(pair[i], keys[round]);
        for (int i = 0; i < 8; i++)
            _mm256_storeu_si256((__m256i *)words + i, _mm256_aesenclast_epi128(pair[i], keys[ROUNDS]));
    }
}

/* As `sample_wide`, eight side by side. */
VECTOR static size_t sample_narrow(const Stream *stream, uint32_t first, int32_t *out, uint32_t *slow, size_t count,
                                   const char *soon, size_t item)
{
    const __m256i top = _mm256_set1_epi32((int32_t)0xffff0000), columns = _mm256_set1_epi32(63),
                  sign = _mm256_set1_epi32(INT32_MIN), most = _mm256_set1_epi32((1 << KNOT_BITS) - 1);
    uint32_t words[2 * PIECE] __attribute__((aligned(64)));
    size_t marked = 0;
    for (size_t at = 0; at < count; at += 8) {
        __builtin_prefetch(soon + at * item, 1);
        if (at % PIECE == 0) {
            size_t blocks = (count - at < PIECE ? count - at : PIECE) / 2;
            (encrypts_pairs() ? blocks_by_two : blocks_by_one)(stream, first + (uint32_t)(at / 2), words, blocks);
        }
        const uint32_t *group = words + at % PIECE / GROUP * 2 * GROUP + at % GROUP;
        __m256i a = _mm256_load_si256((const __m256i *)group), b = _mm256_load_si256((const __m256i *)(group + GROUP));
        __m256i column = _mm256_i32gather_epi32((const int *)alias_table, _mm256_and_si256(a, columns), 4);
        __m256i coin = _mm256_xor_si256(_mm256_slli_epi32(a, 10), sign); /* signed comparisons are all there is */
        __m256i own = _mm256_cmpgt_epi32(_mm256_xor_si256(_mm256_and_si256(column, top), sign), coin);
        __m256i knot = _mm256_slli_epi32(_mm256_blendv_epi8(column, a, own), 26);
        __m256i two = _mm256_or_si256(_mm256_srli_epi32(a, 22), _mm256_slli_epi32(b, 10));
        __m256i value = _mm256_add_epi32(_mm256_srai_epi32(knot, 26 - KNOT_BITS), _mm256_srli_epi32(b, 11));
        value = _mm256_add_epi32(value, _mm256_sub_epi32(_mm256_and_si256(two, most), most));
        _mm256_storeu_si256((__m256i *)(out + at), value);
        unsigned marks = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(knot, sign)));
        for (; __builtin_expect(marks, 0); marks &= marks - 1)
            slow[marked++] = (uint32_t)at + (uint32_t)__builtin_ctz(marks);
    }
    return marked;
}

/* Noise for one row of `size` values, added in place, or the bare integers where `values` is int32 (`grid` = 0). */
static int release_row(Stream *stream, int lanes, char *values, Py_ssize_t item, size_t size, double grid)
{
    int32_t noise[CHUNK] __attribute__((aligned(64)));
    uint32_t slow[CHUNK + GROUP];
    for (size_t start = 0; start < size; start += CHUNK) {
        size_t count = size - start < CHUNK ? size - start : CHUNK;
        size_t whole = (count + 2 * GROUP - 1) / (2 * GROUP) * (2 * GROUP);
        size_t marked = (lanes == 16 ? sample_wide : sample_narrow)(stream, (uint32_t)(start / 2), noise, slow, whole,
                                                                    values + start * item, (size_t)item);
        for (size_t i = 0; i < marked && slow[i] < count; i++) {
            noise[slow[i]] = next_accepted(stream);
            if (PyErr_Occurred())
                return -1;
        }
        if (grid > 0)
            (lanes == 16 ? add_wide : add_narrow)(values + start * item, item == 8, noise, count, grid, 1 / grid);
        else
            memcpy(values + start * item, noise, count * sizeof *noise);
    }
    return 0;
}

static int release_rows(int lanes, const uint8_t *key, const uint32_t *addresses, Py_ssize_t rows, char *values,
                        Py_ssize_t item, size_t size, double grid, PyObject *decide)
{
    __m128i keys[ROUNDS + 1];
    expand_key(key, keys);
    for (Py_ssize_t row = 0; row < rows; row++, addresses += 3) {
        Stream stream = {keys, (uint64_t)addresses[0] << 32 | addresses[1], (uint64_t)addresses[2] << 32, 0, decide, row};
        if (release_row(&stream, lanes, values + row * size * item, item, size, grid) < 0)
            return -1;
    }
    return 0;
}
#else
static int lanes_here(void) { return 0; }
static int release_rows(int lanes, const uint8_t *key, const uint32_t *addresses, Py_ssize_t rows, char *values,
                        Py_ssize_t item, size_t size, double grid, PyObject *decide)
{
    PyErr_SetString(PyExc_RuntimeError, "this processor has no vector path");
    return -1;
}
#endif

static PyObject *py_configure(PyObject *self, PyObject *arguments)
{
    Py_buffer alias, units, terms;
    if (!PyArg_ParseTuple(arguments, "y*y*y*", &alias, &units, &terms))
        return NULL;
    int fits = alias.len == sizeof alias_table && units.len == sizeof ends && terms.len == sizeof coefficients;
    if (fits) {
        memcpy(alias_table, alias.buf, sizeof alias_table);
        memcpy(ends, units.buf, sizeof ends);
        memcpy(coefficients, terms.buf, sizeof coefficients);
        for (uint32_t top = 0, bin = 0; top < 256; top++) {
            while (bin < BINS && ends[bin + 1] <= top << 24)
                bin++;
            first_bin[top] = (uint16_t)bin;
        }
    }
    PyBuffer_Release(&alias), PyBuffer_Release(&units), PyBuffer_Release(&terms);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "these tables are of another sampler");
    Py_RETURN_NONE;
}

static PyObject *py_lanes(PyObject *self, PyObject *nothing) { return PyLong_FromLong(lanes_here()); }

/* release(lanes, key, addresses u32[K, 3], values f32|f64|i32 [K, P], grid, decide) */
static PyObject *py_release(PyObject *self, PyObject *arguments)
{
    Py_buffer key, addresses, values;
    double grid;
    int lanes;
    PyObject *decide;
    if (!PyArg_ParseTuple(arguments, "iy*y*w*dO", &lanes, &key, &addresses, &values, &grid, &decide))
        return NULL;
    Py_ssize_t rows = addresses.len / 12, item = values.itemsize;
    int fits = key.len == 32 && rows > 0 && addresses.len == rows * 12 && values.len % (rows * item) == 0 &&
               (item == 4 || (item == 8 && grid > 0)) && values.len / item / rows < (Py_ssize_t)1 << 31 &&
               lanes >= 8 && lanes <= lanes_here();
    int failed = 1;
    if (fits)
        failed = release_rows(lanes, key.buf, addresses.buf, rows, values.buf, item, (size_t)(values.len / item / rows),
                              grid, decide) < 0;
    PyBuffer_Release(&key), PyBuffer_Release(&addresses), PyBuffer_Release(&values);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "key, addresses and values do not fit together");
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* sample(words u32[2n], out i32[n], slow u32[n + 1]) -> how many are slow */
static PyObject *py_sample(PyObject *self, PyObject *arguments)
{
    Py_buffer words, out, slow;
    if (!PyArg_ParseTuple(arguments, "y*w*w*", &words, &out, &slow))
        return NULL;
    size_t count = (size_t)out.len / 4, marked = 0;
    int fits = count % GROUP == 0 && (size_t)words.len == 8 * count && (size_t)slow.len >= 4 * (count + 1);
    if (fits)
        marked = sample_words(words.buf, out.buf, slow.buf, count);
    PyBuffer_Release(&words), PyBuffer_Release(&out), PyBuffer_Release(&slow);
    return fits ? PyLong_FromSize_t(marked) : PyErr_Format(PyExc_ValueError, "the buffers do not fit together");
}

/* add(values f32|f64 [n], noise i32[n], grid) */
static PyObject *py_add(PyObject *self, PyObject *arguments)
{
    Py_buffer values, noise;
    double grid;
    if (!PyArg_ParseTuple(arguments, "w*y*d", &values, &noise, &grid))
        return NULL;
    Py_ssize_t item = values.itemsize, count = noise.len / 4;
    int fits = (item == 4 || item == 8) && values.len == count * item && grid > 0;
    if (fits)
        add_plain(values.buf, item == 8, noise.buf, (size_t)count, grid, 1 / grid);
    PyBuffer_Release(&values), PyBuffer_Release(&noise);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "values and noise do not fit together");
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"configure", py_configure, METH_VARARGS, "Take the tables."},
    {"lanes", py_lanes, METH_NOARGS, "The widest `release` that this processor can do, in draws side by side; 0: none."},
    {"release", py_release, METH_VARARGS, "Round values to the grid and add noise, in place."},
    {"sample", py_sample, METH_VARARGS, "Draws from random words; marks those that want a proposal."},
    {"add", py_add, METH_VARARGS, "Round values to the grid and add integers, in place."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernels", NULL, -1, methods};
PyMODINIT_FUNC PyInit_kernels(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made != NULL)
        PyModule_AddIntConstant(made, "VERSION", 7); /* as in compiled.py */
    return made;
}
