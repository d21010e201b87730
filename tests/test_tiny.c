/* test_tiny.c - the microcontroller's configuration: no training, no records,
   small register tiles; the whole tuner with its stack in 32 KiB of RAM beside
   its weights. Sizes come from the _memsize functions, the stack is measured
   by painting it. */
#define METATUNE_NO_TRAIN
#define METATUNE_NO_RECORDS
#define METATUNE_GNN_SMALL
#define METATUNE_IMPLEMENTATION
#include "../metatune.h"
#include "fake.h"

#if defined(__GNUC__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE
#endif

/* Fill the stack below, run, and see how far down it was used. */
#define STACK_BYTES 65536
static uintptr_t stack_low;

static NOINLINE void stack_paint(void)
{
    volatile unsigned char a[STACK_BYTES];
    size_t i;
    for (i = 0; i < STACK_BYTES; i++)
        a[i] = 0x5a;
    stack_low = (uintptr_t)a; /* a number: it is read when `a` is gone */
}

static NOINLINE size_t stack_used(void)
{
    volatile unsigned char *p = (volatile unsigned char *)stack_low;
    size_t i;
    for (i = 0; i < STACK_BYTES && p[i] == 0x5a; i++) {}
    return STACK_BYTES - i;
}

static NOINLINE metatune_status run_ask_tell(metatune_tuner *t, fake *f)
{
    metatune_trial tr;
    metatune_result r;
    size_t n;
    metatune_status st;
    memset(&r, 0, sizeof r);
    while ((st = metatune_ask(t, &tr, 1, &n)) == METATUNE_OK) {
        r.value = fake_time(f, tr.values);
        metatune_tell(t, tr.id, &r);
    }
    return st;
}

static void test_tiny_memory(void)
{
    static fake f;
    static metatune_tuner t;
    static double block[5000];
    static metatune_real w[5000];
    metatune_model model;
    metatune_problem p;
    metatune_gnn_config gnn = metatune_gnn_preset(METATUNE_GNN_TINY);
    metatune_config c = metatune_config_tiny();
    metatune_knob k[8];
    size_t bytes, stack, total;
    int i;
    static const int64_t one[] = {1};
    if (sizeof(metatune_real) != 4)
        SKIP("stated for float");
    fake_init(&f, 64);
    p = fake_problem(&f);
    p.measure = NULL; /* ask/tell, as a microcontroller runs it */
    p.progress = NULL;
    memcpy(k, fake_knobs, sizeof fake_knobs);
    for (i = 6; i < 8; i++) { /* eight knobs, as the claim says */
        k[i].name = i == 6 ? "g" : "h";
        k[i].values = one;
        k[i].labels = NULL;
        k[i].n_values = 1;
    }
    p.knobs = k;
    p.n_knobs = 8;
    CHECK_INT(metatune_model_init(&model, &gnn, w, 5000, 3), METATUNE_OK);
    p.model = &model;
    bytes = metatune_memsize(&c, &p);
    CHECK(bytes > 0 && bytes <= sizeof block);
    /* once before the paint: the dynamic linker's lazy binding of libm is not
       the tuner's stack */
    CHECK_INT(metatune_init(&t, &c, &p, block, bytes, NULL), METATUNE_OK);
    CHECK_INT(run_ask_tell(&t, &f), METATUNE_BUDGET);
    stack_paint();
    CHECK_INT(metatune_init(&t, &c, &p, block, bytes, NULL), METATUNE_OK);
    CHECK_INT(run_ask_tell(&t, &f), METATUNE_BUDGET);
    stack = stack_used();
    total = bytes + sizeof t + sizeof model + stack;
    printf("    tiny: block %u + tuner %u + model %u + stack %u = %u bytes "
           "of RAM; weights %u bytes\n", (unsigned)bytes, (unsigned)sizeof t,
           (unsigned)sizeof model, (unsigned)stack, (unsigned)total,
           (unsigned)(4 * model.n_params));
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
    CHECK(total <= 32768);
#endif
    CHECK(model.n_params * 4 <= 20480);
}

int main(void)
{
    RUN(test_tiny_memory);
    return check_report("test_tiny");
}
