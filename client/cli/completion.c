/* completion.c: what bash and zsh read to complete `larder …`. Both get the same words: after no command the commands,
 * after a command its own words and options. The shell runs the program named on the command line, and that asks the
 * daemon for jobs. */
#include <stdio.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/line.h"

static const char words_of_commands[] =
    "    case $command in\n"
    "    '') echo \"status top jobs datasets tree events history explain doctor ping cancel weight drain poison check "
    "cache cluster look pack verify prepare plan bench completion\"\n"
    "        echo \"--socket --json --help --version\" ;;\n"
    "    status | jobs) echo \"--watch --interval --json --socket\" ;;\n"
    "    top) echo \"--interval --json --socket\" ;;\n"
    "    datasets | tree | events | doctor) echo \"--json --socket\" ;;\n"
    "    ping) echo \"--json --socket\" ;;\n"
    "    drain) echo \"--for-restart --json --socket\" ;;\n"
    "    poison) echo \"list clear --json --socket\" ;;\n"
    "    completion) echo \"bash zsh\" ;;\n"
    "    pack) case $current in -*) \"$larder\" pack --help 2>/dev/null | sed -n 's/^  \\(--[a-z-]*\\) .*/\\1/p' ;; "
    "esac "
    ";;\n"
    "    verify) case $current in -*) echo \"--quiet\" ;; esac ;;\n"
    "    cluster) echo \"status leave keygen probe --cluster --authority --node --days --bundle --json --socket\" ;;\n"
    "    bench) \"$larder\" bench --help 2>/dev/null | sed -n 's/^  bench \\([a-z]*\\).*/\\1/p' ;;\n"
    "    cancel | weight | explain | history)\n"
    "        LARDER_SOCKET=${socket:-$LARDER_SOCKET} \"$larder\" status --json 2>/dev/null |\n"
    "            python3 -c 'import json, sys; print(*(job[\"name\"] for job in json.load(sys.stdin)[\"jobs\"]))' \\\n"
    "                2>/dev/null\n"
    "        case $command in explain) echo \"--interval\" ;; history) echo \"--since\" ;; esac\n"
    "        echo \"--json --socket\" ;;\n"
    "    esac\n";

/* The command is the first word that is neither an option nor an option's value. bash makes three words of
 * --socket=PATH. */
static const char find_command[] = "    local command= socket= word before=\n"
                                   "    for word in \"$@\"; do\n"
                                   "        case $before,$word in\n"
                                   "        *,=) continue ;;\n"
                                   "        --socket,*) socket=$word; before=; continue ;;\n"
                                   "        --interval,* | --since,*) before=; continue ;;\n"
                                   "        *,--socket=*) socket=${word#--socket=} ;;\n"
                                   "        *,-*) ;;\n"
                                   "        *) command=${command:-$word} ;;\n"
                                   "        esac\n"
                                   "        before=$word\n"
                                   "    done\n";

static const char for_bash[] =
    "_larder() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} larder=${COMP_WORDS[0]/#\\~/$HOME}\n"
    "    COMPREPLY=($(compgen -W \"$(_larder_words \"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\" -- \"$current\"))\n"
    "}\n"
    "complete -o default -F _larder larder\n";

static const char for_zsh[] = "_larder() {\n"
                              "    local current=${words[CURRENT]} larder=${words[1]/#\\~/$HOME}\n"
                              "    local -a found=(${=\"$(_larder_words \"${(@)words[2,CURRENT-1]}\")\"})\n"
                              "    compadd -a found || _files\n"
                              "}\n"
                              "compdef _larder larder\n";

int cli_completion(const struct cli_line *line)
{
    bool zsh = strcmp(line->word[0], "zsh") == 0;
    if (!zsh && strcmp(line->word[0], "bash") != 0)
        return cli_usage("completion is for bash or zsh, not for", line->word[0]);
    printf("%s_larder_words() {\n%s%s}\n%s", zsh ? "#compdef larder\n" : "", find_command, words_of_commands,
           zsh ? for_zsh : for_bash);
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}
