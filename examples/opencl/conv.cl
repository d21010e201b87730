/* conv.cl - a convolution whose shape and knobs are macros:
     in[h][w][c] (NHWC), weights[r][s][c][k], out[y][x][k]
   A work-item makes TX pixels of TK vectors of VEC output channels, in
   registers. A work-group is WK x WX x WY items. With STAGE the weights of UC
   input channels are copied to local memory first, by all items of a group.
     shape: C H W K R S OH OW STRIDE PAD
     knobs: WK WX WY VEC TK TX UC STAGE UNROLL */
#if VEC == 1
typedef float vec;
#define LOAD(p) (*(p))
#define STORE(v, p) (*(p) = (v))
#else
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
typedef JOIN(float, VEC) vec;
#define LOAD(p) JOIN(vload, VEC)(0, p)
#define STORE(v, p) JOIN(vstore, VEC)(v, 0, p)
#endif

#if UNROLL
#define TAPS _Pragma("unroll")
#else
#define TAPS
#endif

#define KI (VEC * TK)           /* channels of an item */
#define KG (WK * KI)            /* of a group */

__kernel __attribute__((reqd_work_group_size(WK, WX, WY)))
void conv(__global const float *restrict in,
          __global const float *restrict weights, __global float *restrict out)
{
    const int k0 = (int)get_global_id(0) * KI;
    const int x0 = (int)get_global_id(1) * TX;
    const int y = (int)get_global_id(2);
    vec acc[TX][TK];
#if STAGE
    __local float tile[R * S * UC * KG];
    const int item = ((int)get_local_id(2) * WX + (int)get_local_id(1)) * WK +
                     (int)get_local_id(0);
    const int kg = (int)get_group_id(0) * KG;
#endif
    _Pragma("unroll")
    for (int j = 0; j < TX; j++)
        _Pragma("unroll")
        for (int i = 0; i < TK; i++)
            acc[j][i] = (vec)(0.0f);
    for (int c0 = 0; c0 < C; c0 += UC) {
#if STAGE
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t = item; t < R * S * UC * KG; t += WK * WX * WY) {
            int k = t % KG, c = t / KG % UC, rs = t / (KG * UC);
            tile[t] = weights[(rs * C + c0 + c) * K + kg + k];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        TAPS
        for (int r = 0; r < R; r++) {
            const int h = y * STRIDE + r - PAD;
            TAPS
            for (int s = 0; s < S; s++) {
                __global const float *p[TX];
                float mask[TX];
                _Pragma("unroll")
                for (int j = 0; j < TX; j++) { /* outside: 0 times inside */
                    const int w = (x0 + j) * STRIDE + s - PAD;
                    const int inside = h >= 0 && h < H && w >= 0 && w < W;
                    p[j] = in + (inside ? (h * W + w) * C + c0 : 0);
                    mask[j] = inside ? 1.0f : 0.0f;
                }
                for (int c = 0; c < UC; c++) {
                    vec b[TK];
                    _Pragma("unroll")
                    for (int i = 0; i < TK; i++)
#if STAGE
                        b[i] = LOAD(tile + ((r * S + s) * UC + c) * KG + k0 -
                                    kg + i * VEC);
#else
                        b[i] = LOAD(weights + ((r * S + s) * C + c0 + c) * K +
                                    k0 + i * VEC);
#endif
                    _Pragma("unroll")
                    for (int j = 0; j < TX; j++) {
                        const float a = p[j][c] * mask[j];
                        _Pragma("unroll")
                        for (int i = 0; i < TK; i++)
                            acc[j][i] = fma((vec)(a), b[i], acc[j][i]);
                    }
                }
            }
        }
    }
    if (y < OH)
        _Pragma("unroll")
        for (int j = 0; j < TX; j++)
            if (x0 + j < OW)
                _Pragma("unroll")
                for (int i = 0; i < TK; i++)
                    STORE(acc[j][i],
                          out + (y * OW + x0 + j) * K + k0 + i * VEC);
}
