/* metatune.c - the `metatune` command: finds the sub-command

   Each sub-command has a file of its own, cmd_NAME.c, which also holds its
   help text. The headers' implementation is compiled here, once. */
#define METATUNE_IMPLEMENTATION
#include "cmd_util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const cmd_command *const commands[] = {
    &cmd_layers, &cmd_tune, &cmd_collect, &cmd_train, &cmd_replay,
    &cmd_lookup,
    &cmd_report, &cmd_export, &cmd_import, &cmd_records
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const cmd_command *find(const char *name)
{
    size_t i;
    for (i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static void usage(FILE *to)
{
    size_t i;
    fprintf(to, "usage: metatune COMMAND [OPTIONS]\n\n");
    for (i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-9s %s\n", commands[i]->name, commands[i]->brief);
    fprintf(to, "  %-9s %s\n", "help", "say more about a command");
    fprintf(to, "  %-9s %s\n", "version", "print the version");
    fprintf(to, "\nExit status: 0 success; 1 nothing valid found, interrupted "
            "or a failed run;\n2 usage or bad input.\n");
}

/* What was printed must have arrived: a full disk is a failed run. */
static int finish(int status)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CMD_OK)
        return cmd_fail(CMD_FAILED, "cannot write the output: %s",
                        strerror(errno));
    return status;
}

int main(int argc, char **argv)
{
    const cmd_command *command;
    const char *name = argc > 1 ? argv[1] : "";
    int i, help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 ||
                  strcmp(name, "-h") == 0;
    if (argc > 0 && argv[0])
        cmd_program = argv[0];
    if (!*name) {
        usage(stderr);
        return CMD_USAGE;
    }
    if (help && argc < 3) {
        usage(stdout);
        return finish(CMD_OK);
    }
    if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) {
        printf("metatune %d.%d.%d, schema %u\n", METATUNE_VERSION_MAJOR,
               METATUNE_VERSION_MINOR, METATUNE_VERSION_PATCH,
               METATUNE_ENCODE_SCHEMA);
        return finish(CMD_OK);
    }
    if (help)
        name = argv[2];
    command = find(name);
    if (!command)
        return cmd_fail(CMD_USAGE, "unknown command \"%s\"; see `metatune "
                        "help`", name);
    for (i = 2; i < argc; i++)
        help = help || strcmp(argv[i], "--help") == 0 ||
               strcmp(argv[i], "-h") == 0;
    if (help) {
        fputs(command->help, stdout);
        return finish(CMD_OK);
    }
    return finish(command->run(argc - 2, argv + 2));
}
