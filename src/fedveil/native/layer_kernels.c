/* Convolutions, dense layers and max pools of many small networks at once: K clients with their own parameters, B
 * examples each. `engine/fused` has the same in PyTorch; the two agree to rounding.
 *
 * Everything is written once, on vectors of LANES floats, and compiled twice, for AVX-512 and for AVX2; Python asks
 * `lanes` what the processor has. An example's numbers are made by the same operations in the same order whatever stands
 * beside it: a product and an addition are fused where `fmadd` is written, and nowhere else.
 *
 * A convolution's image is channels last. A filter's weights are taken in the order (row, column, channel), so one
 * kernel row meets a stretch of `run` numbers of the image that lie side by side. A dense layer is a convolution of one
 * image whose pixels are the client's examples.
 */
#ifndef LANES
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Vectors or rows at a time; floats behind an image; floats that a core's nearest cache holds beside others; tensors that a
 * kernel takes; terms of a product at a time; how many terms and floats ahead memory is asked for. */
enum { MOST_LANES = 16, BLOCK = 5, SPARE = 128, NEAR = 6144, MEMORIES = 6, TERMS = 64, AHEAD = 8, FAR = 256 };

/* Sizes of a call, as Python gives them. */
typedef struct {
    int32_t clients, slots, size, weight, bias; /* parameters [clients, size], a layer's at these places; no bias: -1 */
    int32_t channels, filters, height, width, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, out_h, out_w;
    int32_t planar, brief, relu; /* the inputs are [C, H, W]; kernel rows are short; outputs are cut off at 0 */
    /* A convolution leaves out so many pixels at the edge. Its outputs are every so many pixels of whole images, from a
     * place on. */
    int32_t skip_h, skip_w, step_h, step_w, place_h, place_w, whole_h, whole_w;
    int32_t by_filter, by_channel, by_row, by_column; /* how far apart a convolution's weights lie */
} Shape;

/* A kernel and where its memory is: `offset` bytes behind an address that is given when it runs, and `stride` bytes
 * further for each group of clients before. */
typedef struct {
    Shape shape; /* of one group */
    int64_t kernel;
    struct { int64_t root, offset, stride; } places[MEMORIES];
} Call;

/* How an arranged image is walked through, whose pixels are `depth` floats long. Pixel p begins at `at[p]`; its kernel
 * rows lie `line` floats apart; its outputs go to `to[p]`. A kernel row is cut into `blocks` of `vectors` vectors. Weight
 * u of a filter, in the usual order, lies at `from[u]` and is its tap `order[u]`. */
typedef struct {
    int depth, pixels, taps, rows, run, line, size, blocks, vectors, span, wide, *at, *to, *from, *order;
} Walk;

/* A product of matrices: `rows` × `terms` times `terms` × `columns`. How far apart are rows and terms of the first one,
 * terms of the second, rows of the result; whether it is added. */
typedef struct { int rows, terms, columns; ptrdiff_t row, term, next, out; int add; } Product;

static char *scratch; /* memory of the call that runs: calls hold the interpreter's lock */

static void *take(size_t floats) {
    char *place = scratch;
    scratch += (floats * 4 + 63) / 64 * 64;
    return memset(place, 0, floats * 4);
}

static int up(int count, int to) { return (count + to - 1) / to * to; }

static Walk walk_of(const Shape *s, int lanes, int depth) {
    Walk w = {.depth = depth, .pixels = s->out_h * s->out_w, .taps = s->channels * s->kernel_h * s->kernel_w};
    w.rows = s->kernel_h, w.run = s->kernel_w * depth, w.line = (s->width + 2 * s->pad_w) * depth;
    w.size = up((s->height + 2 * s->pad_h) * w.line + SPARE, MOST_LANES), w.wide = up(s->filters, lanes);
    int all = up(w.run, lanes) / lanes, area = s->kernel_h * s->kernel_w;
    w.blocks = (all + BLOCK - 1) / BLOCK, w.vectors = (all + w.blocks - 1) / w.blocks, w.span = w.vectors * lanes;
    w.at = take(w.pixels), w.to = take(w.pixels), w.from = take(w.taps), w.order = take(w.taps);
    for (int p = 0; p < w.pixels; p++) {
        int i = p / s->out_w, j = p % s->out_w;
        w.at[p] = (i * s->stride_h + s->skip_h) * w.line + (j * s->stride_w + s->skip_w) * depth;
        w.to[p] = ((i * s->step_h + s->place_h) * s->whole_w + j * s->step_w + s->place_w) * s->filters;
    }
    for (int c = 0, u = 0; c < s->channels; c++)
        for (int place = 0; place < area; place++, u++) {
            w.from[u] = c * s->by_channel + place / s->kernel_w * s->by_row + place % s->kernel_w * s->by_column;
            w.order[u] = place * s->channels + c;
        }
    return w;
}

/* How long pixels are, where vectors of them are read: a line of the cache costs as much as a part of two. */
static int depth_of(const Shape *s, int lanes) {
    int whole = up(s->channels, lanes);
    return !s->brief && whole * 3 <= s->channels * 4 ? whole : s->channels;
}

/* A gradient as kernels make it, biases last, to its places among the parameters. Where kernel rows are short it is
 * [taps, filters], else [filters, taps]. */
static void deposit(const Shape *s, const Walk *w, const float *grid, float *parameters) {
    int by_filter = s->brief ? 1 : w->taps, by_tap = s->brief ? s->filters : 1;
    for (int o = 0; o < s->filters; o++)
        for (int u = 0; u < w->taps; u++)
            parameters[s->weight + o * w->taps + u] = grid[o * by_filter + w->order[u] * by_tap];
    if (s->bias >= 0)
        memcpy(parameters + s->bias, grid + s->filters * w->taps, s->filters * sizeof *grid);
}

/* The weights of one client in blocks of `block` filters, each [taps, block] (the last may be narrower). Here, since
 * vector code would gather them slowly. */
static void pack(const Shape *s, const Walk *w, const float *weights, float *matrix, int block) {
    for (int first = 0; first < s->filters; first += block, matrix += w->taps * block, weights += s->by_filter * block) {
        int some = s->filters - first < block ? s->filters - first : block;
        int wide = w->wide - first < block ? w->wide - first : block;
        for (int u = 0; u < w->taps; u++)
            for (int o = 0; o < some; o++)
                matrix[w->order[u] * wide + o] = weights[o * s->by_filter + w->from[u]];
    }
}

typedef void Kernel(const Shape *s, float *const *buffers);

/* Cross-entropy of outputs and its derivative by them, times the weight of the label's class if classes have any. What has
 * no weight itself is padding and gives zeros. A label that is no class gives what is not a number. */
static void classes(const Shape *s, float *const *b) {
    const int64_t *labels = (const int64_t *)b[1];
    for (int e = 0, n = s->width; e < s->clients * s->slots; e++) {
        const float *x = b[0] + (ptrdiff_t)e * n, weight = b[2][e];
        float *delta = b[4] + (ptrdiff_t)e * n, most = x[0], sum = 0, scale = 1;
        int64_t label = weight > 0 ? labels[e] : 0;
        for (int i = 1; i < n; i++)
            most = x[i] > most ? x[i] : most;
        for (int i = 0; i < n; i++)
            sum += delta[i] = expf(x[i] - most);
        if (label < 0 || label >= n)
            label = 0, scale = NAN;
        else if (b[5])
            scale = b[5][label];
        b[3][e] = weight > 0 ? (logf(sum) - (x[label] - most)) * scale : 0;
        for (int i = 0; i < n; i++)
            delta[i] = weight > 0 ? (delta[i] / sum - (i == label)) * scale : 0;
    }
}

/* How long gradients are: the length of all layers up to this one, from that before and this one's norm; with `relu` there
 * are layers before. Or with memory for factors, min(1, limit / length), of this layer alone if `limit[1]` says so; 0 for
 * padding and for what is not finite. */
static void clip(const Shape *s, float *const *b) {
    for (int e = 0; e < s->clients * s->slots; e++) {
        float norm = b[0][e], length = s->relu || b[2] ? b[1][e] : 0;
        if (b[2] == NULL) {
            b[1][e] = (float)sqrt((double)length * length + (double)norm * norm);
        } else {
            const float *limit = b[5], own = limit[1] ? norm : length;
            int counts = b[3][e] > 0 && isfinite(length) && isfinite(b[4][e]);
            b[2][e] = counts ? *limit / (own > *limit ? own : *limit) : 0;
        }
    }
}

/* Images of pixels become those of channels, or with `planar` the way back. */
static void turn(const Shape *s, float *const *b) {
    int size = s->channels * s->height * s->width, rows = s->planar ? s->channels : size / s->channels, columns = size / rows;
    for (int e = 0; e < s->clients * s->slots; e++)
        for (int j = 0; j < columns; j++)
            for (int i = 0; i < rows; i++)
                b[1][(ptrdiff_t)e * size + j * rows + i] = b[0][(ptrdiff_t)e * size + i * columns + j];
}

/* Of sums over the points of each channel, the means over all of its group. */
static void level(const Shape *s, float *sums) {
    int members = s->channels / s->filters;
    for (int group = 0; group < s->filters; group++, sums += members) {
        double total = 0;
        for (int c = 0; c < members; c++)
            total += sums[c];
        for (int c = 0; c < members; c++)
            sums[c] = (float)(total / ((double)members * s->width));
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define GLUE(a, b, c) a##b##c
#define PASTE(a, b, c) GLUE(a, b, c)
#define MM(operation) PASTE(_mm, WIDTH, _##operation##_ps)
#define WHOLES(operation) PASTE(_mm, WIDTH, _##operation)
#define NAME(name) PASTE(name, _, WIDTH)
#define INLINE static inline __attribute__((always_inline))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define CASE(name, count, call) case count: { enum { name = count }; call; break; }
#define EACH(name, count, call) /* with a constant of that name, so that sums stay in registers */                     \
    switch (count) { CASE(name, 1, call) CASE(name, 2, call) CASE(name, 3, call) CASE(name, 4, call) CASE(name, BLOCK, call) }

#define WIDTH 512
#define LANES 16
#define TILE 8 /* pixels side by side */
#define SHARE 5 /* a fifth of the sums that stay in registers */
#define WIDEST 4 /* vectors of a product's row at a time */
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,fma")
#define mask_512(n) ((__mmask16)((1u << (n)) - 1))
#define is_512(v, relation) _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), relation)
INLINE __m512 load_512(const float *from, int n) { return _mm512_maskz_loadu_ps(mask_512(n), from); }
INLINE void store_512(float *to, __m512 v, int n) { _mm512_mask_storeu_ps(to, mask_512(n), v); }
INLINE __m512 keep_512(__m512 v, __m512 of) { return _mm512_maskz_mov_ps(~is_512(of, _CMP_LE_OQ), v); }
#define larger_512(x, y) (_mm512_cmp_ps_mask(x, y, _CMP_GT_OQ) | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q)) /* or no number */
#define choose_512(x, y, a, b) _mm512_mask_mov_ps(b, larger_512(x, y), a)
#define cast_512 _mm512_castsi512_ps
INLINE float total_512(__m512 v) { return _mm512_reduce_add_ps(v); }
#include "layer_kernels.c"
#pragma GCC pop_options
#undef WIDTH
#undef LANES
#undef TILE
#undef SHARE
#undef WIDEST

#define WIDTH 256
#define LANES 8
#define TILE 6
#define SHARE 2
#define WIDEST 2
#pragma GCC push_options
#pragma GCC target("avx2,fma")
static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
#define mask_256(n) _mm256_loadu_si256((const __m256i *)(ones + 8 - (n)))
#define is_256(v, relation) _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), relation))
INLINE __m256 load_256(const float *from, int n) { return _mm256_maskload_ps(from, mask_256(n)); }
INLINE void store_256(float *to, __m256 v, int n) {
    if (n == 8) /* with a mask it is many times slower on some processors */
        _mm256_storeu_ps(to, v);
    else
        _mm256_maskstore_ps(to, mask_256(n), v);
}
INLINE __m256 keep_256(__m256 v, __m256 of) { return _mm256_andnot_ps(_mm256_cmp_ps(of, _mm256_setzero_ps(), _CMP_LE_OQ), v); }
#define larger_256(x, y) _mm256_or_ps(_mm256_cmp_ps(x, y, _CMP_GT_OQ), _mm256_cmp_ps(x, x, _CMP_UNORD_Q))
#define choose_256(x, y, a, b) _mm256_blendv_ps(b, a, larger_256(x, y))
#define cast_256 _mm256_castsi256_ps
INLINE float total_256(__m256 v) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
#include "layer_kernels.c"
#pragma GCC pop_options

static int lanes_here(void) {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
}
#define BOTH(name) {name##_512, name##_256}
#else
static int lanes_here(void) { return 0; }
#define BOTH(name) {NULL, NULL}
#endif

static Kernel *const kernels[][2] = {BOTH(convolve), BOTH(reverse), BOTH(gradients),  BOTH(collect),
                                     BOTH(dense),    BOTH(outer),   BOTH(pool),       BOTH(dense_back),
                                     BOTH(dense_norms), BOTH(bend), {classes, classes}, {turn, turn}, BOTH(multiply),
                                     BOTH(normalise), BOTH(normalise_back), {clip, clip}, BOTH(remember), BOTH(remember_back)};

/* run(lanes, clients, calls, scratch, roots u64): all calls for one group of clients, then for the next, whose memory is
 * still near. Whoever calls has checked that they fit together. */
static PyObject *py_run(PyObject *self, PyObject *arguments) {
    int lanes, clients, known = sizeof kernels / sizeof *kernels;
    Py_buffer calls, room, roots;
    if (!PyArg_ParseTuple(arguments, "iiy*w*y*", &lanes, &clients, &calls, &room, &roots))
        return NULL;
    const Call *call = calls.buf, *end = call + calls.len / sizeof *call;
    int fits = calls.len > 0 && calls.len % sizeof *call == 0 && call->shape.clients > 0 && lanes >= 8 && lanes <= lanes_here();
    for (const Call *c = call; fits && c < end; c++) {
        fits &= c->kernel >= 0 && c->kernel < known && c->shape.clients == call->shape.clients;
        for (int i = 0; i < MEMORIES; i++)
            fits &= c->places[i].root >= 0 && c->places[i].root < roots.len / 8;
    }
    for (int first = 0, group = 0; fits && first < clients; first += call->shape.clients, group++)
        for (const Call *c = call; c < end; c++) {
            Shape shape = c->shape;
            float *memory[MEMORIES];
            for (int i = 0; i < MEMORIES; i++)
                memory[i] = (float *)(uintptr_t)(((uint64_t *)roots.buf)[c->places[i].root] + c->places[i].offset +
                                                 group * c->places[i].stride);
            shape.clients = shape.clients < clients - first ? shape.clients : clients - first;
            scratch = (char *)(((uintptr_t)room.buf + 63) / 64 * 64);
            kernels[c->kernel][lanes == 8](&shape, memory);
        }
    PyBuffer_Release(&calls), PyBuffer_Release(&room), PyBuffer_Release(&roots);
    return fits ? PyBool_FromLong(1) : PyErr_Format(PyExc_ValueError, "no such kernel");
}

static PyObject *py_lanes(PyObject *self, PyObject *nothing) { return PyLong_FromLong(lanes_here()); }

static PyMethodDef methods[] = {{"run", py_run, METH_VARARGS, NULL}, {"lanes", py_lanes, METH_NOARGS, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "layer_kernels", NULL, -1, methods};
PyMODINIT_FUNC PyInit_layer_kernels(void) {
    PyObject *made = PyModule_Create(&module);
    if (made != NULL)
        PyModule_AddIntConstant(made, "VERSION", 7); /* as in compiled.py */
    return made;
}
#else
#define vec PASTE(__m, WIDTH, )
#define WHOLE PASTE(__m, WIDTH, i)

/* One example inside its border, which was zeros at first, as are the ends of pixels. */
static void NAME(arrange)(const Shape *s, const Walk *w, const float *input, float *image) {
    int width = s->width * s->channels, plane = s->height * s->width;
    for (int i = 0; i < s->height; i++) {
        float *row = image + (i + s->pad_h) * w->line + s->pad_w * w->depth;
        if (s->planar)
            for (int c = 0; c < s->channels; c++)
                for (int j = 0; j < s->width; j++)
                    row[j * w->depth + c] = input[c * plane + i * s->width + j];
        else if (w->depth == s->channels)
            memcpy(row, input + i * width, width * sizeof *row);
        else
            for (int j = 0; j < s->width; j++)
                for (int c = 0; c < s->channels; c += LANES)
                    MM(storeu)(row + j * w->depth + c,
                               NAME(load)(input + i * width + j * s->channels + c, LEAST(s->channels - c, LANES)));
    }
}

/* What `rows` kernel rows add to m pixels by n vectors of filters; pixels past the last one repeat it. */
INLINE void NAME(tile)(const int m, const int n, const Shape *s, const Walk *w, int first, int row, int rows, const float *image,
                       const float *matrix, const float *start, float *out, int left) {
    const float *x[TILE];
    vec sum[TILE][2];
    for (int p = 0; p < m; p++) {
        int pixel = LEAST(first + p, w->pixels - 1);
        x[p] = image + w->at[pixel] + row * w->line;
        for (int v = 0; v < n; v++)
            sum[p][v] = row ? NAME(load)(out + w->to[pixel] + v * LANES, LEAST(left - v * LANES, LANES))
                            : MM(loadu)(start + v * LANES);
    }
    for (int last = row + rows; row < last; row++) {
        for (int r = 0; r < w->run; r++, matrix += n * LANES) {
            vec weights[2];
            for (int v = 0; v < n; v++)
                weights[v] = MM(loadu)(matrix + v * LANES);
            for (int p = 0; p < m; p++)
                for (int v = 0; v < n; v++)
                    sum[p][v] = MM(fmadd)(MM(set1)(x[p][r]), weights[v], sum[p][v]);
        }
        for (int p = 0; p < m; p++)
            x[p] += w->line;
    }
    for (int p = 0; p < m; p++)
        for (int v = 0; v < n; v++) /* of zero and what is not a number, max gives its second operand */
            NAME(store)(out + w->to[LEAST(first + p, w->pixels - 1)] + v * LANES,
                        s->relu && row == w->rows ? MM(max)(MM(setzero)(), sum[p][v]) : sum[p][v],
                        LEAST(left - v * LANES, LANES));
}

/* Outputs, as many kernel rows at a time as a core's nearest cache holds the weights of. */
static void NAME(convolve)(const Shape *s, float *const *b) {
    Walk w = walk_of(s, LANES, s->channels);
    int most = MOST(NEAR / (2 * LANES * w.run), 1);
    int tile = up(w.pixels, TILE) > up(w.pixels, TILE - 1) ? TILE - 1 : TILE; /* pixels at a time, few of them twice */
    const float *input = b[1];
    float *out = b[2], *matrix = take((size_t)w.taps * w.wide), *start = take(w.wide);
    float *image = take(w.size);
    for (int client = 0; client < s->clients; client++) {
        const float *own = b[0] + (ptrdiff_t)client * s->size;
        pack(s, &w, own + s->weight, matrix, 2 * LANES);
        if (s->bias >= 0)
            memcpy(start, own + s->bias, s->filters * sizeof *start);
        for (int slot = 0; slot < s->slots; slot++) {
            NAME(arrange)(s, &w, input, image);
            for (int f = 0; f < w.wide; f += 2 * LANES)
                for (int row = 0, wide = w.wide - f > LANES; row < w.rows; row += most)
                    for (int p = 0, rows = LEAST(most, w.rows - row); p < w.pixels; p += tile) {
                        const float *part = matrix + (size_t)f * w.taps + row * w.run * (wide + 1) * LANES;
                        int left = s->filters - f;
                        switch (2 * wide + (tile == TILE)) {
                            CASE(n, 0, NAME(tile)(TILE - 1, n + 1, s, &w, p, row, rows, image, part, start + f, out + f, left))
                            CASE(n, 1, NAME(tile)(TILE, n, s, &w, p, row, rows, image, part, start + f, out + f, left))
                            CASE(n, 2, NAME(tile)(TILE - 1, n, s, &w, p, row, rows, image, part, start + f, out + f, left))
                            CASE(n, 3, NAME(tile)(TILE, n - 1, s, &w, p, row, rows, image, part, start + f, out + f, left))
                        }
                    }
            input += s->channels * s->height * s->width, out += s->whole_h * s->whole_w * s->filters;
        }
    }
}

/* n derivatives by outputs; zero where the output was cut off. */
INLINE vec NAME(live)(const Shape *s, const float *delta, const float *output, int n) {
    vec values = NAME(load)(delta, n);
    return s->relu ? NAME(keep)(values, NAME(load)(output, n)) : values;
}

/* Adds what n vectors of m kernel rows give to the derivative by the image: pixel by pixel, each with the filters whose
 * derivative is not zero. Down the columns, where what a pixel waits for was not stored in the moment before. */
INLINE void NAME(scatter)(const int m, const int n, const Shape *s, const Walk *w, const int *count, const int *which,
                          const float *value, const float *matrix, float *image) {
    const ptrdiff_t line = w->line;
    for (int j = 0; j < s->out_w; j++)
        for (int p = j; p < w->pixels; p += s->out_w) {
            vec sum[BLOCK * SHARE];
            float *to = image + w->at[p];
#pragma GCC unroll 25
            for (int t = 0; t < m * n; t++)
                sum[t] = MM(loadu)(to + t / n * line + t % n * LANES);
            for (int e = p * s->filters; e < p * s->filters + count[p]; e++)
#pragma GCC unroll 25
                for (int t = 0; t < m * n; t++)
                    sum[t] = MM(fmadd)(MM(set1)(value[e]), MM(loadu)(matrix + which[e] + t * LANES), sum[t]);
#pragma GCC unroll 25
            for (int t = 0; t < m * n; t++)
                MM(storeu)(to + t / n * line + t % n * LANES, sum[t]);
        }
}

/* The derivative by the inputs, from that by the outputs. */
static void NAME(reverse)(const Shape *s, float *const *b) {
    Walk w = walk_of(s, LANES, depth_of(s, LANES));
    int most = LEAST(MOST(NEAR / (s->filters * w.span), 1), LEAST(SHARE, w.rows)); /* rows whose weights are near */
    int own = most * w.span, piece = s->filters * own, parts = (w.rows + most - 1) / most, area = s->kernel_h * s->kernel_w;
    int *count = take(w.pixels), *which = take((size_t)w.pixels * s->filters);
    float *value = take((size_t)w.pixels * s->filters), *matrix = take((size_t)parts * w.blocks * piece);
    float *image = take(w.size), *result = b[3];
    const float *output = b[1], *delta = b[2];
    for (int u = 0; u < w.taps; u++) {
        int row = u % area / s->kernel_w, r = u % area % s->kernel_w * w.depth + u / area;
        w.order[u] = (row / most * w.blocks + r / w.span) * piece + row % most * w.span + r % w.span;
    }
    for (int client = 0; client < s->clients; client++) {
        const float *weights = b[0] + (ptrdiff_t)client * s->size + s->weight;
        for (int o = 0; o < s->filters; o++)
            for (int u = 0; u < w.taps; u++)
                matrix[w.order[u] + o * own] = weights[o * s->by_filter + w.from[u]];
        for (int slot = 0; slot < s->slots; slot++) {
            for (int p = 0, next; p < w.pixels; p++, delta += s->filters, output += s->filters) {
                next = p * s->filters;
                for (int f = 0, left; f < s->filters; f += LANES) {
                    float parts[LANES];
                    left = LEAST(s->filters - f, LANES);
                    MM(storeu)(parts, NAME(live)(s, delta + f, output + f, left));
                    for (int o = 0; o < left; o++) /* without a branch, which nobody could predict */
                        which[next] = (f + o) * own, value[next] = parts[o], next += parts[o] != 0;
                }
                count[p] = next - p * s->filters;
            }
            memset(image, 0, w.size * sizeof *image);
            for (int part = 0; part < parts * w.blocks; part++) {
                const float *from = matrix + (size_t)part * piece;
                int row = part / w.blocks * most;
                float *to = image + row * w.line + part % w.blocks * w.span;
                EACH(m, LEAST(most, w.rows - row),
                     EACH(n, w.vectors, NAME(scatter)(LEAST(m, SHARE), n, s, &w, count, which, value, from, to)))
            }
            for (int pixel = 0; pixel < s->height * s->width; pixel++, result += s->channels) {
                const float *from = image + (pixel / s->width + s->pad_h) * w.line + (pixel % s->width + s->pad_w) * w.depth;
                for (int c = 0; c < s->channels; c += LANES)
                    NAME(store)(result + c, NAME(load)(from + c, LEAST(s->channels - c, LANES)), LEAST(s->channels - c, LANES));
            }
        }
    }
}

/* n vectors of m kernel rows of a filter's gradient: the sum over the pixels in its list. Of vector v of a row, `many[v]`
 * numbers go to `to[v]`. */
INLINE void NAME(gather)(const int m, const int n, const Walk *w, const int *place, const float *delta, int pixels,
                         const float *image, const int *to, const int *many, int row, float *grid) {
    const float *line[m]; /* so that addresses need no arithmetic of their own */
    vec sum[BLOCK * SHARE];
#pragma GCC unroll 25
    for (int t = 0; t < m * n; t++)
        sum[t] = MM(setzero)(), line[t / n] = image + t / n * w->line;
    for (int e = 0; e < pixels; e++) {
        ptrdiff_t at = place[e];
#pragma GCC unroll 25
        for (int t = 0; t < m * n; t++)
            sum[t] = MM(fmadd)(MM(set1)(delta[e]), MM(loadu)(line[t / n] + at + t % n * LANES), sum[t]);
    }
#pragma GCC unroll 25
    for (int t = 0; t < m * n; t++)
        NAME(store)(grid + t / n * row + to[t % n], sum[t], many[t % n]);
}

/* The gradients of v vectors of filters by n taps of each of m kernel rows, of which `taps` are there. At every pixel all of
 * them meet, zeros too: where rows are short that is faster than lists. */
INLINE void NAME(spread)(const int m, const int n, const int v, const Shape *s, const Walk *w, const int *at, int pixels,
                         const float *image, const float *delta, const float *output, float *grid, int taps, int left) {
    const ptrdiff_t line = w->line;
    vec sum[BLOCK * SHARE];
#pragma GCC unroll 25 /* else so many sums would live in memory */
    for (int t = 0; t < m * n * v; t++)
        sum[t] = MM(setzero)();
    for (int p = 0; p < pixels; p++, delta += s->filters, output += s->filters) {
        vec part[2];
        for (int u = 0; u < v; u++)
            part[u] = NAME(live)(s, delta + u * LANES, output + u * LANES, LEAST(left - u * LANES, LANES));
        const float *x = image + at[p];
#pragma GCC unroll 25
        for (int t = 0; t < m * n * v; t++)
            sum[t] = MM(fmadd)(MM(set1)(x[t / v / n * line + t / v % n]), part[t % v], sum[t]);
    }
#pragma GCC unroll 25
    for (int t = 0; t < m * n * v; t++)
        if (t / v % n < taps)
            NAME(store)(grid + (t / v / n * w->run + t / v % n) * s->filters + t % v * LANES, sum[t],
                        LEAST(left - t % v * LANES, LANES));
}

/* Gradients by weights and biases: of each example, with its norm, or without norms the sums over a client's examples, in
 * their places among the parameters. */
static void NAME(gradients)(const Shape *s, float *const *b) {
    Walk w = walk_of(s, LANES, depth_of(s, LANES));
    int single = b[3] != NULL, together = single ? 1 : s->slots, pixels = together * w.pixels;
    int *end = take(s->filters), *place = take((size_t)pixels * s->filters), *at = take(pixels);
    int inputs = s->channels * s->height * s->width, length = s->filters * (w.taps + (s->bias >= 0));
    float *value = take((size_t)pixels * w.wide), *images = take((size_t)together * w.size);
    float *biases = take(s->filters), *own = take(length);
    const float *input = b[0];
    int row_taps = s->kernel_w * s->channels, most = LEAST(SHARE, w.rows), vectors = w.blocks * w.vectors;
    int *to = take(vectors), *valid = take(vectors);
    for (int v = 0, from = 0; from < w.run; v++, from += LANES) { /* where vectors of a kernel row go, without ends */
        to[v] = from / w.depth * s->channels + from % w.depth;
        valid[v] = LEAST(w.depth > s->channels ? s->channels - from % w.depth : w.run - from, LANES);
    }
    for (int p = 0; p < pixels; p++)
        at[p] = w.at[p % w.pixels] + p / w.pixels * w.size;
    for (int group = 0; group < s->clients * s->slots / together; group++) {
        const float *output = b[1] + (ptrdiff_t)group * pixels * s->filters, *delta = b[2] + (output - b[1]);
        vec nothing = MM(setzero)(); /* 0·x: where an input is no finite number, no gradient is, even if delta is 0 */
        for (int member = 0; member < together; member++, input += inputs) {
            NAME(arrange)(s, &w, input, images + (size_t)member * w.size);
            for (int i = 0; i < inputs; i += LANES)
                nothing = MM(fmadd)(MM(setzero)(), NAME(load)(input + i, LEAST(inputs - i, LANES)), nothing);
        }
        float *grid = single ? b[4] + (ptrdiff_t)group * length : own, parts[LANES];
        for (int o = 0; o < s->filters; o++)
            end[o] = o * pixels; /* of a filter's list of the pixels whose derivative is not zero */
        for (int f = 0; f < s->filters; f += LANES) {
            int left = LEAST(s->filters - f, LANES);
            vec bias = MM(setzero)();
            for (int p = 0; p < pixels; p++) {
                vec part = NAME(live)(s, delta + p * s->filters + f, output + p * s->filters + f, left);
                bias = MM(add)(bias, part);
                MM(storeu)(parts, part);
                for (int o = s->brief ? left : 0; o < left; o++) {
                    int next = end[f + o];
                    place[next] = at[p], value[next] = parts[o], end[f + o] += parts[o] != 0;
                }
            }
            NAME(store)(biases + f, bias, left);
        }
        for (int f = 0, v = 1; s->brief && f < s->filters; f += v * LANES)
            for (int row = 0, rows = w.run > BLOCK ? 1 : most; row < w.rows; row += rows)
                for (int t = 0, some; t < w.run; t += some * SHARE / v) {
                    const float *x = images + row * w.line + t, *d = delta + f, *out = output + f;
                    float *first = grid + (row * w.run + t) * s->filters + f;
                    int left = s->filters - f;
                    v = w.run > BLOCK && left > LANES ? 2 : 1;
                    some = (LEAST(w.run - t, BLOCK * SHARE / v) * v + SHARE - 1) / SHARE;
                    if (v == 2)
                        EACH(n, some, NAME(spread)(1, n * SHARE / 2, 2, s, &w, at, pixels, x, d, out, first, w.run - t, left))
                    else if (w.run > BLOCK)
                        EACH(n, some, NAME(spread)(1, n * SHARE, 1, s, &w, at, pixels, x, d, out, first, w.run - t, left))
                    else
                        EACH(n, w.run, EACH(m, LEAST(rows, w.rows - row), NAME(spread)(LEAST(m, SHARE), n, 1, s, &w, at, pixels,
                                                                                     x, d, out, first, n, left)))
                }
        for (int o = 0; !s->brief && o < s->filters; o++)
            for (int row = 0; row < w.rows; row += most)
                for (int v = 0; v < vectors; v += w.vectors) {
                    const float *from = images + row * w.line + v * LANES;
                    float *first = grid + o * w.taps + row * row_taps;
                    int begin = o * pixels, some = end[o] - begin;
                    EACH(m, LEAST(most, w.rows - row),
                         EACH(n, w.vectors, NAME(gather)(LEAST(m, SHARE), n, &w, place + begin, value + begin, some, from,
                                                         to + v, valid + v, row_taps, first)))
                }
        if (s->bias >= 0)
            memcpy(grid + s->filters * w.taps, biases, s->filters * sizeof *biases);
        grid[0] += NAME(total)(nothing);
        double squares = 0; /* of 1,024 numbers at a time in single precision */
        for (int from = 0; single && from < length; from += 1024) {
            vec square = MM(setzero)();
            for (int i = from; i < LEAST(from + 1024, length); i += LANES) {
                vec part = NAME(load)(grid + i, LEAST(length - i, LANES));
                square = MM(fmadd)(part, part, square);
            }
            squares += NAME(total)(square);
        }
        if (single)
            b[3][group] = (float)sqrt(squares);
        else
            deposit(s, &w, grid, b[4] + (ptrdiff_t)group * s->size);
    }
}

/* The sum of each client's gradients times their factors, in its places among the parameters. */
static void NAME(collect)(const Shape *s, float *const *b) {
    Walk w = walk_of(s, LANES, s->channels);
    int length = s->filters * (w.taps + (s->bias >= 0));
    float *grid = take((size_t)length + SPARE);
    for (int client = 0; client < s->clients; client++) {
        const float *own = b[0] + (ptrdiff_t)client * s->slots * length, *factors = b[1] + client * s->slots;
        for (int i = 0; i < length; i += LANES) {
            vec sum = MM(setzero)();
            for (int e = 0; e < s->slots; e++)
                sum = MM(fmadd)(MM(set1)(factors[e]), NAME(load)(own + e * length + i, LEAST(length - i, LANES)), sum);
            MM(storeu)(grid + i, sum);
        }
        deposit(s, &w, grid, b[2] + (ptrdiff_t)client * s->size);
    }
}

/* Up to LANES weights of m outputs meet the inputs of n examples. */
INLINE void NAME(meet)(const int m, const int n, int left, ptrdiff_t size, const float *weights, const float *inputs, vec *sum) {
    vec own[WIDEST];
    for (int k = 0; k < m; k++)
        own[k] = NAME(load)(weights + k * size, left), __builtin_prefetch(weights + k * size + FAR);
    for (int v = 0; v < n; v++) {
        vec input = NAME(load)(inputs + v * size, left);
        for (int k = 0; k < m; k++)
            sum[v * m + k] = MM(fmadd)(own[k], input, sum[v * m + k]);
    }
}

/* Outputs o to o + m - 1 of n examples of a dense layer, whose inputs are channels. */
INLINE void NAME(outputs)(const int m, const int n, const Shape *s, const float *own, const float *inputs, float *outputs, int o) {
    int size = s->channels, last = size / LANES * LANES;
    const float *weights = own + s->weight + (ptrdiff_t)o * size;
    vec sum[BLOCK * WIDEST];
#pragma GCC unroll 20
    for (int t = 0; t < m * n; t++)
        sum[t] = MM(setzero)();
    for (int i = 0; i < last; i += LANES)
        NAME(meet)(m, n, LANES, size, weights + i, inputs + i, sum);
    NAME(meet)(m, n, size - last, size, weights + last, inputs + last, sum); /* by itself: masks would slow down all others */
#pragma GCC unroll 20 /* with constant places: else the sums would live in memory */
    for (int t = 0; t < m * n; t++)
        outputs[t / m * s->filters + o + t % m] = NAME(total)(sum[t]) + (s->bias < 0 ? 0 : own[s->bias + o + t % m]);
}

static void NAME(dense)(const Shape *s, float *const *b) {
    for (int client = 0; client < s->clients; client++)
        for (int o = 0, end = (client + 1) * s->slots; o < s->filters; o += WIDEST)
            for (int e = client * s->slots; e < end; e += BLOCK) {
                const float *own = b[0] + (ptrdiff_t)client * s->size, *inputs = b[1] + (ptrdiff_t)e * s->channels;
                float *out = b[2] + (ptrdiff_t)e * s->filters;
                EACH(n, LEAST(end - e, BLOCK), EACH(m, LEAST(s->filters - o, WIDEST),
                                                    NAME(outputs)(LEAST(m, WIDEST), n, s, own, inputs, out, o)))
            }
}

/* m rows and n vectors of it. */
INLINE void NAME(block)(const int m, const int n, const Product *p, const float *a, const float *b, float *out, int left) {
    const ptrdiff_t row_a = p->row, row_out = p->out;
    vec sum[BLOCK * WIDEST];
#pragma GCC unroll 20
    for (int t = 0; t < m * n; t++)
        sum[t] = p->add ? NAME(load)(out + t / n * row_out + t % n * LANES, LEAST(left - t % n * LANES, LANES)) : MM(setzero)();
    for (int t = 0; t < m * n; t++)
        __builtin_prefetch(out + t / n * row_out + (t % n + n) * LANES, 1);
    for (int term = 0; term < p->terms; term++, a += p->term, b += p->next) {
        vec row[WIDEST];
        for (int v = 0; v < n; v++)
            row[v] = NAME(load)(b + v * LANES, LEAST(left - v * LANES, LANES));
        for (int v = 0; term + AHEAD < p->terms && v < n; v++)
            __builtin_prefetch(b + AHEAD * p->next + v * LANES);
#pragma GCC unroll 20
        for (int t = 0; t < m * n; t++)
            sum[t] = MM(fmadd)(MM(set1)(a[t / n * row_a]), row[t % n], sum[t]);
    }
#pragma GCC unroll 20
    for (int t = 0; t < m * n; t++)
        NAME(store)(out + t / n * row_out + t % n * LANES, sum[t], LEAST(left - t % n * LANES, LANES));
}

/* Some terms at a time, so that what is walked through lies on few pages. */
static void NAME(product)(Product p, const float *a, const float *b, float *out) {
    for (int terms = p.terms; terms > 0; terms -= TERMS, a += TERMS * p.term, b += TERMS * p.next, p.add = 1) {
        p.terms = LEAST(terms, TERMS);
        for (int row = 0; row < p.rows; row += BLOCK)
            for (int f = 0; f < p.columns; f += WIDEST * LANES) {
                int left = p.columns - f, wide = (LEAST(left, WIDEST * LANES) + LANES - 1) / LANES;
                EACH(m, LEAST(p.rows - row, BLOCK),
                     EACH(n, wide, NAME(block)(m, LEAST(n, WIDEST), &p, a + row * p.row, b + f, out + row * p.out + f, left)))
            }
    }
}

/* Products of clients' matrices, `slots` × `channels` and `channels` × `filters`; with `relu` they are added. Strides are
 * those of clients, rows and terms of the first one, clients and terms of the second, clients and rows of the result. */
static void NAME(multiply)(const Shape *s, float *const *b) {
    const int64_t *by = (const int64_t *)b[3];
    Product p = {s->slots, s->channels, s->filters, by[1], by[2], by[4], by[6], s->relu};
    for (int client = 0; client < s->clients; client++)
        NAME(product)(p, b[0] + client * by[0], b[1] + client * by[3], b[2] + client * by[5]);
}

/* 1 / (1 + exp(-x)), within 2⁻²² of itself; of what is not a number, that. */
INLINE vec NAME(sigmoid)(vec x) {
    vec y = MM(min)(MM(set1)(88), MM(max)(MM(set1)(-88), MM(sub)(MM(setzero)(), x))), one = MM(set1)(1);
    WHOLE power = WHOLES(cvtps_epi32)(MM(mul)(y, MM(set1)(1.44269504f))); /* exp(y) = 2ⁿ·exp(r) */
    vec n = MM(cvtepi32)(power), r = MM(fnmadd)(n, MM(set1)(-2.12194440e-4f), MM(fnmadd)(n, MM(set1)(0.693359375f), y));
    const float terms[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1};
    vec sum = MM(set1)(1.0f / 5040);
#pragma GCC unroll 7
    for (int k = 0; k < 7; k++)
        sum = MM(fmadd)(sum, r, MM(set1)(terms[k]));
    vec scale = NAME(cast)(WHOLES(slli_epi32)(WHOLES(add_epi32)(power, WHOLES(set1_epi32)(127)), 23));
    return MM(div)(one, MM(fmadd)(sum, scale, one));
}

INLINE vec NAME(tangent)(vec x) { /* of small x as many bits after the point as of large ones */
    return MM(fmsub)(MM(set1)(2), NAME(sigmoid)(MM(add)(x, x)), MM(set1)(1));
}

/* An LSTM: at every moment the gates of what came in become those of the state before, too. States, memories and their
 * tangents lie behind one another, each for all moments and the one before. */
static void NAME(remember)(const Shape *s, float *const *b) {
    int n = s->channels, part = s->slots * n, all = part * (s->height + 1);
    Product p = {s->slots, n, 4 * n, n, 1, 4 * n, 4 * n, 1};
    for (int client = 0; client < s->clients; client++)
        for (int t = 0; t < s->height; t++) {
            float *gates = b[0] + (ptrdiff_t)(client * s->height + t) * 4 * part;
            float *state = b[2] + (ptrdiff_t)client * 3 * all + t * part, *memory = state + all, *tangent = memory + all;
            NAME(product)(p, state, b[1] + (ptrdiff_t)client * 4 * n * n, gates);
            for (int i = 0; i < part; i += n, gates += 4 * n)
                for (int c = 0, left; c < n; c += LANES) {
                    left = LEAST(n - c, LANES);
                    vec enter = NAME(sigmoid)(NAME(load)(gates + c, left)), keep = NAME(sigmoid)(NAME(load)(gates + n + c, left));
                    vec new = NAME(tangent)(NAME(load)(gates + 2 * n + c, left));
                    vec leave = NAME(sigmoid)(NAME(load)(gates + 3 * n + c, left));
                    vec held = MM(fmadd)(enter, new, MM(mul)(keep, NAME(load)(memory + i + c, left))), curve = NAME(tangent)(held);
                    NAME(store)(gates + c, enter, left), NAME(store)(gates + n + c, keep, left);
                    NAME(store)(gates + 2 * n + c, new, left), NAME(store)(gates + 3 * n + c, leave, left);
                    NAME(store)(memory + part + i + c, held, left), NAME(store)(tangent + part + i + c, curve, left);
                    NAME(store)(state + part + i + c, MM(mul)(leave, curve), left);
                }
        }
}

/* The way back: from derivatives by all states, and by the last state and memory, those by the gates, and by the first. */
static void NAME(remember_back)(const Shape *s, float *const *b) {
    int n = s->channels, part = s->slots * n, all = part * (s->height + 1);
    Product p = {s->slots, 4 * n, n, 4 * n, 1, n, n, 0};
    vec one = MM(set1)(1);
    for (int client = 0; client < s->clients; client++)
        for (int t = s->height - 1; t >= 0; t--) {
            ptrdiff_t moment = (ptrdiff_t)client * s->height + t;
            const float *gates = b[0] + moment * 4 * part, *arrived = b[2] + moment * part;
            const float *memory = b[1] + (ptrdiff_t)client * 3 * all + all + t * part, *tangent = memory + all + part;
            float *slopes = b[4] + moment * 4 * part, *state = b[5] + (ptrdiff_t)client * 2 * part, *held = state + part;
            for (int i = 0; i < part; i += n, gates += 4 * n, slopes += 4 * n)
                for (int c = 0, left; c < n; c += LANES) {
                    left = LEAST(n - c, LANES);
                    vec enter = NAME(load)(gates + c, left), keep = NAME(load)(gates + n + c, left);
                    vec new = NAME(load)(gates + 2 * n + c, left), leave = NAME(load)(gates + 3 * n + c, left);
                    vec curve = NAME(load)(tangent + i + c, left), before = NAME(load)(memory + i + c, left);
                    vec by_state = MM(add)(NAME(load)(state + i + c, left), NAME(load)(arrived + i + c, left));
                    vec slope = MM(mul)(leave, MM(fnmadd)(curve, curve, one));
                    vec by_held = MM(fmadd)(by_state, slope, NAME(load)(held + i + c, left));
                    vec by_leave = MM(mul)(MM(mul)(by_state, curve), MM(fnmadd)(leave, leave, leave));
                    NAME(store)(slopes + c, MM(mul)(MM(mul)(by_held, new), MM(fnmadd)(enter, enter, enter)), left);
                    NAME(store)(slopes + n + c, MM(mul)(MM(mul)(by_held, before), MM(fnmadd)(keep, keep, keep)), left);
                    NAME(store)(slopes + 2 * n + c, MM(mul)(MM(mul)(by_held, enter), MM(fnmadd)(new, new, one)), left);
                    NAME(store)(slopes + 3 * n + c, by_leave, left), NAME(store)(held + i + c, MM(mul)(by_held, keep), left);
                }
            NAME(product)(p, slopes - 4 * part, b[3] + (ptrdiff_t)client * s->size, state);
        }
}

/* The derivative by the inputs of a dense layer. */
static void NAME(dense_back)(const Shape *s, float *const *b) {
    Product p = {s->slots, s->filters, s->channels, s->filters, 1, s->channels, s->channels, 0};
    for (int client = 0; client < s->clients; client++)
        NAME(product)(p, b[1] + (ptrdiff_t)client * s->slots * s->filters, b[0] + (ptrdiff_t)client * s->size + s->weight,
                      b[2] + (ptrdiff_t)client * s->slots * s->channels);
}

/* The sums of clients' gradients by the weights and biases of a dense layer, each times its factor if there are any:
 * products of its deltas and its inputs. */
static void NAME(outer)(const Shape *s, float *const *b) {
    int n = s->filters;
    Product p = {n, s->slots, s->channels, 1, n, s->channels, s->channels, 0};
    float *deltas = take((size_t)s->slots * n), *biases = take(n);
    for (int client = 0; client < s->clients; client++) {
        float *total = b[2] + (ptrdiff_t)client * s->size;
        for (int e = 0, first = client * s->slots; e < s->slots; e++)
            for (int o = 0; o < n; o++) {
                float delta = b[1][(ptrdiff_t)(first + e) * n + o] * (b[3] ? b[3][first + e] : 1);
                deltas[e * n + o] = delta, biases[o] = delta + (e ? biases[o] : 0);
            }
        NAME(product)(p, deltas, b[0] + (ptrdiff_t)client * s->slots * s->channels, total + s->weight);
        if (s->bias >= 0)
            memcpy(total + s->bias, biases, n * sizeof *biases);
    }
}

/* Numbers, or derivatives by what became of them, with zeros where these are not positive. */
static void NAME(bend)(const Shape *s, float *const *b) {
    ptrdiff_t size = (ptrdiff_t)s->clients * s->slots * s->width;
    for (ptrdiff_t i = 0; i < size; i += LANES) {
        int left = LEAST(size - i, LANES);
        NAME(store)(b[2] + i, NAME(keep)(NAME(load)(b[0] + i, left), NAME(load)(b[1] + i, left)), left);
    }
}

/* The norms of the examples' gradients by weights and biases of a dense layer: products of two lengths, whose squares are
 * added in double precision, where those of tiny numbers do not vanish. */
static void NAME(dense_norms)(const Shape *s, float *const *b) {
    for (int e = 0; e < s->clients * s->slots; e++) {
        double product = 1;
        for (int side = 0; side < 2; side++) {
            int size = side ? s->filters : s->channels;
            const float *from = b[side] + (ptrdiff_t)e * size;
            double sum[8] = {side == 0 && s->bias >= 0};
            for (int i = 0; i < size / 8 * 8; i += 8)
                for (int lane = 0; lane < 8; lane++)
                    sum[lane] += (double)from[i + lane] * from[i + lane];
            for (int i = size / 8 * 8; i < size; i++)
                sum[0] += (double)from[i] * from[i];
            product *= ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
        }
        b[2][e] = (float)sqrt(product);
    }
}

/* The largest of each window and its place in it; what is not a number counts as largest. With deltas the way back. */
static void NAME(pool)(const Shape *s, float *const *b) {
    int pixels = s->out_h * s->out_w, image = s->height * s->width * s->channels;
    if (b[3])
        memset(b[0], 0, sizeof(float) * s->clients * s->slots * image);
    for (int e = 0; e < s->clients * s->slots; e++)
        for (int p = 0; p < pixels; p++)
            for (int c = 0; c < s->channels; c += LANES) {
                int left = LEAST(s->channels - c, LANES), first = p / s->out_w * s->stride_h * s->width + p % s->out_w * s->stride_w;
                float *x = b[0] + (ptrdiff_t)e * image + first * s->channels + c, k = 0;
                ptrdiff_t at = ((ptrdiff_t)e * pixels + p) * s->channels + c;
                vec best = NAME(load)(x, left), one = MM(set1)(1), place = MM(setzero)(), delta = place;
                if (b[3])
                    delta = NAME(load)(b[3] + at, left), place = NAME(load)(b[2] + at, left);
                for (int i = 0; i < s->kernel_h; i++, x += (s->width - s->kernel_w) * s->channels)
                    for (int j = 0; j < s->kernel_w; j++, k++, x += s->channels) {
                        vec value = NAME(load)(x, left), off = MM(sub)(place, MM(set1)(k));
                        if (b[3]) /* 1 - off² is positive at the winner's place alone */
                            NAME(store)(x, MM(add)(value, NAME(keep)(delta, MM(fnmadd)(off, off, one))), left);
                        else
                            place = NAME(choose)(value, best, MM(set1)(k), place), best = NAME(choose)(value, best, value, best);
                    }
                if (!b[3])
                    NAME(store)(b[1] + at, best, left), NAME(store)(b[2] + at, place, left);
            }
}

/* A sum over an image's points, of up to LANES channels of n: of x (0), of (x - mean)² (1), of (x - mean)·delta (2). Some
 * hundred are added at a time, so that large images lose no more digits than small ones. */
INLINE vec NAME(over)(const int kind, const float *x, const float *delta, vec mean, int points, int n, int left) {
    vec whole = MM(setzero)();
    for (int p = 0, end; p < points; p = end) {
        vec part = MM(setzero)();
        end = LEAST(p + 256, points);
        for (ptrdiff_t i = (ptrdiff_t)p * n; i < (ptrdiff_t)end * n; i += n) {
            vec value = MM(sub)(NAME(load)(x + i, left), mean);
            part = kind ? MM(fmadd)(value, kind == 1 ? value : NAME(load)(delta + i, left), part) : MM(add)(part, value);
        }
        whole = MM(add)(whole, part);
    }
    return whole;
}

/* Images whose groups of channels get mean 0 and variance 1, times scales, plus shifts `[K, C]`; what was found of them. */
static void NAME(normalise)(const Shape *s, float *const *b) {
    int n = s->channels, points = s->width;
    for (int e = 0; e < s->clients * s->slots; e++) {
        const float *x = b[0] + (ptrdiff_t)e * points * n, *scale = b[1] + e / s->slots * n, *shift = b[2] + e / s->slots * n;
        float *out = b[3] + (ptrdiff_t)e * points * n, *mean = b[4] + (ptrdiff_t)e * 2 * n, *inverse = mean + n;
        for (int c = 0; c < n; c += LANES)
            NAME(store)(mean + c, NAME(over)(0, x + c, x, MM(setzero)(), points, n, LEAST(n - c, LANES)), LEAST(n - c, LANES));
        level(s, mean);
        for (int c = 0, left; c < n; c += LANES)
            left = LEAST(n - c, LANES),
            NAME(store)(inverse + c, NAME(over)(1, x + c, x, NAME(load)(mean + c, left), points, n, left), left);
        level(s, inverse);
        for (int c = 0; c < n; c++)
            inverse[c] = 1 / sqrtf(inverse[c] + *b[5]);
        for (int c = 0; c < n; c += LANES) {
            int left = LEAST(n - c, LANES);
            vec own = NAME(load)(mean + c, left), constant = NAME(load)(shift + c, left);
            vec factor = MM(mul)(NAME(load)(scale + c, left), NAME(load)(inverse + c, left));
            for (ptrdiff_t i = c; i < (ptrdiff_t)points * n; i += n)
                NAME(store)(out + i, MM(fmadd)(MM(sub)(NAME(load)(x + i, left), own), factor, constant), left);
        }
    }
}

/* From the derivatives by what it made those by scales and shifts, of each image, and those by the images if asked for. */
static void NAME(normalise_back)(const Shape *s, float *const *b) {
    int n = s->channels, points = s->width;
    float *slant = take(n), *offset = take(n);
    for (int e = 0; e < s->clients * s->slots; e++) {
        ptrdiff_t first = (ptrdiff_t)e * points * n;
        const float *x = b[0] + first, *delta = b[1] + first, *scale = b[2] + e / s->slots * n;
        const float *mean = b[3] + (ptrdiff_t)e * 2 * n, *inverse = mean + n;
        float *by_scale = b[5] + (ptrdiff_t)e * 2 * n, *by_shift = by_scale + n;
        for (int c = 0; c < n; c += LANES) {
            int left = LEAST(n - c, LANES);
            vec tilted = NAME(over)(2, x + c, delta + c, NAME(load)(mean + c, left), points, n, left);
            NAME(store)(by_scale + c, MM(mul)(tilted, NAME(load)(inverse + c, left)), left);
            NAME(store)(by_shift + c, NAME(over)(0, delta + c, x, MM(setzero)(), points, n, left), left);
        }
        if (b[4] == NULL)
            continue;
        for (int c = 0; c < n; c++)
            slant[c] = scale[c] * by_scale[c], offset[c] = scale[c] * by_shift[c];
        level(s, slant), level(s, offset);
        for (int c = 0; c < n; c += LANES) {
            int left = LEAST(n - c, LANES);
            vec own = NAME(load)(mean + c, left), unit = NAME(load)(inverse + c, left);
            vec factor = MM(mul)(NAME(load)(scale + c, left), unit), constant = MM(mul)(NAME(load)(offset + c, left), unit);
            vec tilt = MM(mul)(MM(mul)(NAME(load)(slant + c, left), unit), unit);
            for (ptrdiff_t i = c; i < (ptrdiff_t)points * n; i += n) {
                vec straight = MM(sub)(MM(mul)(NAME(load)(delta + i, left), factor), constant);
                vec value = MM(fnmadd)(MM(sub)(NAME(load)(x + i, left), own), tilt, straight);
                NAME(store)(b[4] + first + i, value, left);
            }
        }
    }
}
#endif
